// Transforms along one dimension of a tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/fft/plan.h"

namespace aule::ops {

// out = scale * transform of `in` along `dim`; other dimensions agree. Of a real signal and of one that is half a
// spectrum, n is the real tensor's size. Complex transforms may be in place: of one tensor with itself.
void transform_along(const at::Tensor& in, const at::Tensor& out, int64_t dim, FftKind kind, bool forward,
                     double scale);

}  // namespace aule::ops
