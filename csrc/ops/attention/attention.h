// Fused attention: FlashAttention-2 forward and backward (Dao 2023) behind SDPA and torch.ops.aule.flash_attn_*.
//
// query [B, H, Lq, D], key [B, Hkv, Lk, D], value [B, Hkv, Lk, Dv], or all three without B. Hkv divides H. Any strides:
// a tensor whose last dimension is not dense is copied. attn_bias: bool (true: visible) or float, broadcastable to [B,
// H, Lq, Lk]. alibi_slopes: float32 [H] or [B, H]; each score loses slope * |query position - key position| (ALiBi).
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;

// Whether a fused kernel serves arguments of these shapes, dtypes and devices.
bool sdpa_supported(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const OptionalTensor& attn_mask, bool is_causal, bool enable_gqa);

// (out, logsumexp, philox_seed, philox_offset)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attn_fwd(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& attn_bias,
    double dropout_p, bool is_causal, std::optional<double> scale, int64_t window_left, int64_t window_right,
    double softcap, bool causal_bottom_right, const OptionalTensor& alibi_slopes);

// The same into `out`, which overlaps no operand.
void flash_attn_fwd_out(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const OptionalTensor& attn_bias, double dropout_p, bool is_causal, std::optional<double> scale,
                        int64_t window_left, int64_t window_right, double softcap, bool causal_bottom_right,
                        const OptionalTensor& alibi_slopes, const at::Tensor& out);

// (dq, dk, dv, dbias); dbias has no elements unless bias_requires_grad.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    const OptionalTensor& attn_bias, double dropout_p, bool is_causal, std::optional<double> scale, int64_t window_left,
    int64_t window_right, double softcap, bool causal_bottom_right, bool bias_requires_grad,
    const OptionalTensor& grad_logsumexp, const OptionalTensor& alibi_slopes);

// "pass=family" for float16 of a head size on a device, over 1024 keys, for people.
std::vector<std::string> attention_variants(int64_t head_dim, int64_t v_dim, int64_t device, int64_t q_len);

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const OptionalTensor& attn_mask, double dropout_p, bool is_causal, std::optional<double> scale,
                         bool enable_gqa);

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const OptionalTensor& attn_bias,
                                                 double dropout_p, bool is_causal, bool return_debug_mask,
                                                 std::optional<double> scale);

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q, int64_t max_k,
    double dropout_p, bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    std::optional<double> scale);

}  // namespace aule::ops
