// Launch shapes that the kernels of copies and of pointwise ops share: dense ones and strided ones.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "core/access.h"
#include "core/dtype.h"
#include "ops/tensor/strided_shape.h"

namespace aule::ops {

// Elements of one invocation (VEC_ELEMS in the shaders), and invocations of a workgroup.
inline constexpr int kDenseVec = 8, kDenseLocal = 128, kStridedVec = 4, kStridedLocal = 64;

// True if `vec` elements at the address are accesses of 16 bytes, or one access if they have fewer.
inline bool vec_aligned(uint64_t address, DType dtype, int vec) {
  return address % std::min<uint64_t>(16, dtype_size(dtype) * static_cast<uint64_t>(vec)) == 0;
}

// Invocations of a strided kernel: for each row as many as it takes for each to have `each` elements.
template <int N>
uint64_t strided_vecs(const StridedShape<N>& shape, int each = kStridedVec) {
  uint64_t vecs = ceil_div(static_cast<uint64_t>(shape.sizes[0]), static_cast<uint64_t>(each));
  for (int i = 1; i < shape.ndim; ++i) vecs *= static_cast<uint64_t>(shape.sizes[i]);
  return vecs;
}

// Fills the dimensions of a strided kernel's params, all but the strides. Returns the number of workgroups.
template <class Params, int N>
uint32_t fill_dims(Params& p, const StridedShape<N>& shape, int each = kStridedVec) {
  p.ndim = static_cast<uint32_t>(shape.ndim);
  p.row_vecs = narrow<uint32_t>(ceil_div(shape.sizes[0], int64_t{each}));
  const uint64_t vecs = strided_vecs(shape, each);
  p.vecs = static_cast<uint32_t>(vecs);
  // Some kernels need no size of the last dimension.
  for (int i = 0; i < std::min<int>(shape.ndim, std::size(p.sizes)); ++i)
    p.sizes[i] = static_cast<uint32_t>(shape.sizes[i]);
  return narrow<uint32_t>(ceil_div(vecs, kStridedLocal));
}

}  // namespace aule::ops
