// Weights as a direction and a length for each row or column.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim);
std::tuple<at::Tensor, at::Tensor> weight_norm_backward(const at::Tensor& grad_w, const at::Tensor& saved_v,
                                                        const at::Tensor& saved_g, const at::Tensor& saved_norms,
                                                        int64_t dim);

}  // namespace aule::ops
