// Counters of kernels whose last workgroup to arrive joins what the others have written.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// `count` zeros, int32 on the device of `like`, for a kernel that leaves them zero.
at::Tensor arrival_counters(const at::Tensor& like, int64_t count);

}  // namespace aule::ops
