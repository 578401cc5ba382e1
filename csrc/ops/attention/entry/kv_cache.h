// Attention of sequences with lengths in tensors on the device: decoding over a cache and pages of keys. No
// length is read on the host, so a captured graph replays with other ones. Causal and windows count from the last key.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "ops/attention/attention.h"

namespace aule::ops {

// query [B, Lq, H, D]; caches [B, L, Hkv, D], or with block_table [B, pages of a sequence] pages [N, page, Hkv, D];
// seqused_k [B]: keys in use. Returns out like query, logsumexp [B, H, Lq]. Without `check` the caller knows that the
// lists hold no length or page outside of the caches: it is a kernel of its own that looks. With key_scale and
// value_scale, bfloat16 like the caches but for the last dimension, D / 32, the caches are int8 (int8_cache.h).
std::tuple<at::Tensor, at::Tensor> flash_attn_decode(
    const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& value_cache,
    const OptionalTensor& seqused_k, const OptionalTensor& block_table, bool is_causal, std::optional<double> scale,
    int64_t window_left, int64_t window_right, double softcap, int64_t num_splits, const OptionalTensor& alibi_slopes,
    bool check, const OptionalTensor& key_scale, const OptionalTensor& value_scale);

// query [B, H, D] or [B, Lq, H, D]; returns its like.
at::Tensor paged_attention(const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& value_cache,
                           const at::Tensor& block_table, const at::Tensor& context_lens, std::optional<double> scale,
                           bool is_causal, int64_t window_left, int64_t window_right, double softcap,
                           const OptionalTensor& alibi_slopes);

}  // namespace aule::ops
