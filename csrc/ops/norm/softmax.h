// softmax and log_softmax along one dimension, their backwards, and the variants that masked attention calls.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

at::Tensor& softmax_out(const at::Tensor& self, int64_t dim, bool half_to_float, at::Tensor& out);
at::Tensor& log_softmax_out(const at::Tensor& self, int64_t dim, bool half_to_float, at::Tensor& out);
at::Tensor& softmax_backward_data_out(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                                      at::ScalarType input_dtype, at::Tensor& grad_input);
at::Tensor& log_softmax_backward_data_out(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                                          at::ScalarType input_dtype, at::Tensor& grad_input);
// Rows that are all -inf give 0 instead of NaN.
at::Tensor safe_softmax(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype);
at::Tensor masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                          std::optional<int64_t> mask_type);
at::Tensor masked_softmax_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& mask,
                                   std::optional<int64_t> dim);

}  // namespace aule::ops
