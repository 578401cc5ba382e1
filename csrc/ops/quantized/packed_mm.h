// PyTorch's own operators over packed weights.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// self [m, k] @ mat2 [n, k].T of int8, times scales [n] -> [m, n].
at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales);
// Numbers of 4 bits in the order of CUDA's matrix units. weight [n, k / 2] of uint8 has the first of two in the high
// half of a byte -> [n / 8, k / (16 * inner_k_tiles), 32, inner_k_tiles / 2] of int32.
at::Tensor convert_weight_to_int4pack(const at::Tensor& weight, int64_t inner_k_tiles);
// self [m, k] @ weight.T of such numbers: a weight is scale * (number - 8) + zero, of scales_and_zeros [k / group, n,
// 2]. The weight is brought into rows at each call.
at::Tensor weight_int4pack_mm_tiles(const at::Tensor& self, const at::Tensor& mat2, int64_t group,
                                    const at::Tensor& scales_and_zeros);
// self [m, k] @ weight.T, where mat2 [n, k / 8] of int32 has eight numbers of 4 bits each, the first in the lowest
// bits, and a weight is scale * (number - zero); scales and zeros are [k / group, n].
at::Tensor weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t group, const at::Tensor& scales,
                              const at::Tensor& zeros);

}  // namespace aule::ops
