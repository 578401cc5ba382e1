// The cross product of vectors of three.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

at::Tensor& linalg_cross_out(const at::Tensor& self, const at::Tensor& other, int64_t dim, at::Tensor& out);

}  // namespace aule::ops
