// PyTorch's own operators over packed weights.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// self [m, k] @ mat2 [n, k].T of int8, times scales [n] -> [m, n].
at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales);
// self [m, k] @ weight.T, where mat2 [n, k / 8] of int32 has eight numbers of 4 bits each, the first in the lowest
// bits, and a weight is scale * (number - zero); scales and zeros are [k / group, n].
at::Tensor weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t group, const at::Tensor& scales,
                              const at::Tensor& zeros);

}  // namespace aule::ops
