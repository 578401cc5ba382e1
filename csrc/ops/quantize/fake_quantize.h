// Rounding to the numbers of a quantization, for training that is aware of it.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

TwoTensors fake_quantize_per_tensor(const at::Tensor& self, double scale, int64_t zero_point, int64_t quant_min,
                                    int64_t quant_max);
TwoTensors fake_quantize_per_tensor_qparams(const at::Tensor& self, const at::Tensor& scale,
                                            const at::Tensor& zero_point, const at::Tensor& fake_quant_enabled,
                                            int64_t quant_min, int64_t quant_max);
TwoTensors fake_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                     int64_t axis, int64_t quant_min, int64_t quant_max);
at::Tensor fake_quantize_learnable_per_tensor(const at::Tensor& self, const at::Tensor& scale,
                                              const at::Tensor& zero_point, int64_t quant_min, int64_t quant_max,
                                              double grad_factor);
std::tuple<at::Tensor, at::Tensor, at::Tensor> fake_quantize_learnable_per_tensor_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
    int64_t quant_min, int64_t quant_max, double grad_factor);
at::Tensor fake_quantize_learnable_per_channel(const at::Tensor& self, const at::Tensor& scale,
                                               const at::Tensor& zero_point, int64_t axis, int64_t quant_min,
                                               int64_t quant_max, double grad_factor);
std::tuple<at::Tensor, at::Tensor, at::Tensor> fake_quantize_learnable_per_channel_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
    int64_t quant_min, int64_t quant_max, double grad_factor);

}  // namespace aule::ops
