// Complex numbers made of real ones, and conjugates.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out);
at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out);
at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out);
at::Tensor& conj_physical_(at::Tensor& self);

}  // namespace aule::ops
