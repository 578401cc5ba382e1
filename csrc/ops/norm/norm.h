// Norms with statistics of each row: layer norm, RMS norm, group norm.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

ThreeTensors native_layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps);
ThreeTensors native_layer_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                        at::IntArrayRef normalized_shape, const at::Tensor& mean,
                                        const at::Tensor& rstd, const OptionalTensor& weight,
                                        const OptionalTensor& bias, std::array<bool, 3> mask);
std::tuple<at::Tensor, at::Tensor> fused_rms_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                  const OptionalTensor& weight, std::optional<double> eps);
std::tuple<at::Tensor, at::Tensor> fused_rms_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                                           at::IntArrayRef normalized_shape, const at::Tensor& rstd,
                                                           const OptionalTensor& weight, std::array<bool, 2> mask);
ThreeTensors native_group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               int64_t n, int64_t c, int64_t hw, int64_t group, double eps);
ThreeTensors native_group_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                                        const at::Tensor& rstd, const OptionalTensor& weight, int64_t n, int64_t c,
                                        int64_t hw, int64_t group, std::array<bool, 3> mask);

}  // namespace aule::ops
