// Caches in 8 bits: int8 numbers [.., rows, heads, D], and a bfloat16 scale for each block of 32 of them, [.., rows,
// heads, D / 32], by which they are multiplied. kv_cache_append makes both, flash_attn_decode reads them.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

inline constexpr int64_t kInt8Block = 32;  // numbers of a scale

// Raises unless the two fit together and may be read in 16 bytes. `name`: of the cache, "key" or "value".
void check_int8_pair(const char* op, const char* name, const at::Tensor& cache, const at::Tensor& scale);

struct DecodeOptions {
  bool is_causal;
  std::optional<double> scale;
  int64_t window_left, window_right;
  double softcap;
  int64_t num_splits;
  const OptionalTensor& alibi_slopes;
};
// flash_attn_decode of a call over int8 caches, for a query [B, Lq, H, D]: out [B, Lq, H, Dv], logsumexp [H, B, Lq].
// Split-KV reads such caches. More queries than it takes are given to it in parts, where causal and not many more.
// Otherwise the rows in use are copied in the query's dtype, which is little beside the arithmetic of many queries.
void int8_forward(AttentionCall& call, const at::Tensor& query, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const DecodeOptions& options, const at::Tensor& out,
                  const at::Tensor& logsumexp);

}  // namespace aule::ops
