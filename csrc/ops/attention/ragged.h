// Calls whose sequences have their own lengths: packed ones, caches and pages.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

// A list of int32 on the query's device of `sizes` (-1: any), or undefined if it is not given.
at::Tensor index_list(const char* op, const char* name, const OptionalTensor& t, const at::Tensor& query,
                      at::IntArrayRef sizes);
// Rows in the layout of FlashAttention's callers, (.., rows, heads, D), as the kernels take them.
at::Tensor heads_first(const at::Tensor& t);
// `query` packed as [total_q, H, D]; keys [total_k, Hkv, D], or a cache or pages [.., rows, Hkv, D]. `max_q`, `max_k`:
// of one sequence.
AttentionCall ragged_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          RaggedBatch ragged, int64_t batch, int64_t max_q, int64_t max_k, const AttentionFlags& flags);
// A result [1, heads, rows, D] whose rows from the last element of `list` on are to be zeros.
struct RaggedTail {
  at::Tensor result, list;
};
// Makes call.ragged.sequences, which split-KV does not need, and clears the tails.
void make_sequences(AttentionCall& call, std::initializer_list<RaggedTail> tails);
// Has the device report offsets, lengths and pages that do not exist. The kernels clamp them.
void check_sequences(const AttentionCall& call);
// out [1, H, total_q, Dv], logsumexp [H, total_q].
void ragged_forward(AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp, bool check = true);

}  // namespace aule::ops
