// torch.ops.aule.linear_bias_act: a linear layer with what follows it.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace aule::ops {

// activate(x @ weight^T + bias) + residual for x [..., k], weight [n, k], bias [n] and residual [..., n]; activation
// "none", "relu", "gelu", "gelu_tanh" or "silu". One product with its epilogue, where the device's kernel has one.
at::Tensor linear_bias_act(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           std::string_view activation, const std::optional<at::Tensor>& residual);

// The same of PyTorch's operators, on any device. Autograd differentiates these, and keeps the sums before the
// activation for it.
at::Tensor linear_bias_act_composed(const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, std::string_view activation,
                                    const std::optional<at::Tensor>& residual);

}  // namespace aule::ops
