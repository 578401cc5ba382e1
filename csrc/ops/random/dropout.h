#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train);
at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale);

}  // namespace aule::ops
