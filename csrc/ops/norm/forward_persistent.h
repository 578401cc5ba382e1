// Layer norm of half types by persistent workgroups, which take many rows (shaders/norm/norm_fwd_persistent.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Contiguous rows of n elements. `w` and `b` may be undefined. Returns false and does nothing for software devices,
// float32 and float64, short rows, and addresses that are not aligned to 16 bytes.
bool norm_forward_persistent(const char* name, int64_t rows, int64_t n, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                             const at::Tensor& rstd);

}  // namespace aule::ops
