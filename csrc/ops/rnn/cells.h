// Fused cells behind nn.LSTM and nn.GRU.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;
std::tuple<at::Tensor, at::Tensor, at::Tensor> thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                    const at::Tensor& hidden_gates,
                                                                    const at::Tensor& cx,
                                                                    const OptionalTensor& input_bias,
                                                                    const OptionalTensor& hidden_bias);
std::tuple<at::Tensor, at::Tensor, at::Tensor> thnn_fused_lstm_cell_backward_impl(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias);
std::tuple<at::Tensor, at::Tensor> thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                       const at::Tensor& hx, const OptionalTensor& input_bias,
                                                       const OptionalTensor& hidden_bias);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias);

}  // namespace aule::ops
