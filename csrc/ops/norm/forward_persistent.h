// Layer norm of half types by workgroups that stay (shaders/norm/norm_fwd_persistent.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Contiguous rows of n elements; `w` and `b` may be undefined. False, with nothing done, where the kernel does not
// serve: CPUs, float32 and float64, short rows, alignment.
bool norm_forward_persistent(const char* name, int64_t rows, int64_t n, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                             const at::Tensor& rstd);

}  // namespace aule::ops
