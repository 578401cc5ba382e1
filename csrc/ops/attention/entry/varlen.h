// torch.nn.attention.varlen: packed sequences behind PyTorch's own flash attention ops. cum_seq_* are int32 [B + 1] and
// stay on the device; max_q and max_k bound the lengths of one sequence. Causal and windows count from the last key.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "ops/attention/attention.h"

namespace aule::ops {

using FlashForward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// With cum_seq_q: query [total_q, H, D], key and value [total_k, Hkv, D] or with block_table pages [N, page, Hkv, D];
// logsumexp [H, total_q]. Without: all [B, L, H, D]. Dropout and the debug mask are refused, and alibi_slopes
// where a gradient is wanted: PyTorch's backward has no argument for them.
FlashForward _flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k, int64_t max_q,
                                      int64_t max_k, double dropout_p, bool is_causal, bool return_debug_mask,
                                      std::optional<double> scale, std::optional<int64_t> window_left,
                                      std::optional<int64_t> window_right, const OptionalTensor& seqused_k,
                                      const OptionalTensor& alibi_slopes, const OptionalTensor& block_table,
                                      std::optional<int64_t> num_splits);

// The same before PyTorch 2.12.
FlashForward _flash_attention_forward_unpaged(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                              const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k,
                                              int64_t max_q, int64_t max_k, double dropout_p, bool is_causal,
                                              bool return_debug_mask, std::optional<double> scale,
                                              std::optional<int64_t> window_left, std::optional<int64_t> window_right,
                                              const OptionalTensor& seqused_k, const OptionalTensor& alibi_slopes);

// Into `out`; returns logsumexp.
at::Tensor _flash_attention_forward_no_dropout_inplace(
    at::Tensor& out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k, int64_t max_q, int64_t max_k, double dropout_p,
    bool is_causal, bool return_debug_mask, std::optional<double> scale, std::optional<int64_t> window_left,
    std::optional<int64_t> window_right, const OptionalTensor& seqused_k, const OptionalTensor& alibi_slopes,
    const OptionalTensor& block_table, std::optional<int64_t> num_splits);

std::tuple<at::Tensor, at::Tensor, at::Tensor> _flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, double dropout_p, bool is_causal, const at::Tensor& rng_state,
    const at::Tensor& unused, std::optional<double> scale, std::optional<int64_t> window_left,
    std::optional<int64_t> window_right);

// torch.ops.aule.varlen_attn: packed sequences (out like query, logsumexp [H, total_q]), whose backward takes slopes.
std::tuple<at::Tensor, at::Tensor> varlen_attn(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                               const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q,
                                               int64_t max_k, bool is_causal, std::optional<double> scale,
                                               int64_t window_left, int64_t window_right,
                                               const OptionalTensor& alibi_slopes);

std::tuple<at::Tensor, at::Tensor, at::Tensor> varlen_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, bool is_causal, std::optional<double> scale, int64_t window_left,
    int64_t window_right, const OptionalTensor& alibi_slopes);

}  // namespace aule::ops
