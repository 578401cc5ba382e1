// The exponential of matrices.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Waits for the device once: the largest norm decides how many products there are.
at::Tensor linalg_matrix_exp(const at::Tensor& a);
at::Tensor& linalg_matrix_exp_out(const at::Tensor& a, at::Tensor& out);

// Sums of input[0], input[1], .. by each row of `coefficients`.
at::Tensor compute_linear_combination(const at::Tensor& input, const at::Tensor& coefficients);
at::Tensor& compute_linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients, at::Tensor& out);

}  // namespace aule::ops
