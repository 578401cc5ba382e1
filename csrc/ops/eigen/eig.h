// Eigenvalues and eigenvectors of square matrices. All wait for the device: what does not converge, or has infinities
// or NaNs, is an error, as on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

// Vectors have the 2-norm 1, and a real largest element.
std::tuple<at::Tensor, at::Tensor> linalg_eig(const at::Tensor& a);
std::tuple<at::Tensor&, at::Tensor&> linalg_eig_out(const at::Tensor& a, at::Tensor& values, at::Tensor& vectors);
at::Tensor linalg_eigvals(const at::Tensor& a);
at::Tensor& linalg_eigvals_out(const at::Tensor& a, at::Tensor& values);

}  // namespace aule::ops
