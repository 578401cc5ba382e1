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
// By tensors where fake_quant_enabled is not 0: of one number, or, along an axis that is not -1, one for each channel.
TwoTensors fake_quantize_switched(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                  const at::Tensor& fake_quant_enabled, int64_t axis, int64_t quant_min,
                                  int64_t quant_max);
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

// Moves the running range to that of `self` where observer_on is not 0. Where fake_quant_on is not 0, makes scale and
// zero point of it and rounds `self` by them. The range is one of the tensor, or one of each channel.
TwoTensors fused_moving_avg_obs_fq_helper(const at::Tensor& self, const at::Tensor& observer_on,
                                          const at::Tensor& fake_quant_on, at::Tensor& running_min,
                                          at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point,
                                          double averaging_const, int64_t quant_min, int64_t quant_max, int64_t ch_axis,
                                          bool per_row_fake_quant, bool symmetric_quant);

}  // namespace aule::ops
