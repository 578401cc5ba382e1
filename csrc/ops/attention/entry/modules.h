// The eval fast path of nn.MultiheadAttention and nn.TransformerEncoderLayer, composed of SDPA and library ops. PyTorch
// calls these ops directly for this device; without them a whole layer would run on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type);

at::Tensor _transformer_encoder_layer_fwd(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                                          const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                          const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                          bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                          const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                          const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                          const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                          const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                          std::optional<int64_t> mask_type);

// false: nn.TransformerEncoder then keeps padded tensors instead of nested ones, which this device does not have.
bool _nested_tensor_from_mask_left_aligned(const at::Tensor& t, const at::Tensor& mask);

}  // namespace aule::ops
