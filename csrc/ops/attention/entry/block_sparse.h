// Attention over blocks of queries and keys that a mask keeps; the kernels skip the others.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

// query, key, value as of flash_attn_fwd; block_mask: bool [.., blocks of block_q queries, blocks of block_k keys],
// broadcast over batch and heads. Returns (out, logsumexp [B, H, Lq]).
std::tuple<at::Tensor, at::Tensor> block_sparse_attn(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value, const at::Tensor& block_mask,
                                                     int64_t block_q, int64_t block_k, bool is_causal,
                                                     std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor> block_sparse_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& block_mask, int64_t block_q, int64_t block_k,
    bool is_causal, std::optional<double> scale, const std::optional<at::Tensor>& grad_logsumexp);

}  // namespace aule::ops
