// Kernels of a pointwise operator: a pure function of shapes, dtypes, addresses and what is known of the device.
//
// Pieces of an iterator that fit the kernels come from StridedShape::for_each_piece. Each has a plan, which is made
// without an allocation: this is the path of the smallest operators.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"
#include "ops/copy/plan.h"
#include "ops/tensor/strided_shape.h"

namespace aule::ops {

inline constexpr int64_t kSimdElems = 4 * 8 * 8;  // of a workgroup of *_simd.comp

// A kernel's access to an operand or to the result; the kernels' constants have these values.
enum class OperandMode : uint8_t { strided = 0, packed = 1, by_value = 2, constant = 3 };

struct PointwiseOperand {
  uint64_t address = 0;
  DType dtype = DType::f32;
  bool by_value = false;  // a number among the params; it has the result's strides
};

// N operands, the result first.
template <int N>
struct PointwiseProblem {
  DType arithmetic = DType::f32;
  bool is_special = false;  // an entry of a kernel of long functions
  std::array<PointwiseOperand, N> operands;
};

// Kernels: *.comp for dense operands, *_strided.comp, *_special.comp, *_double_bits.comp, and those of complex numbers.
enum class PointwiseForm : uint8_t { dense, strided, special, double_bits };

// The plan of a piece.
template <int N>
struct PointwisePlan {
  int64_t simd_elems = 0;  // the first elements are *_simd.comp's, in whole workgroups; the others are `form`'s
  PointwiseForm form = PointwiseForm::dense;
  std::array<OperandMode, N> modes{};
  bool skips_checks = false;  // constants of *.comp, which explain themselves there
  bool interleaved = false;
  uint32_t groups = 0;  // of `form`; 0: all elements are *_simd.comp's
};

// An operand of `size` bytes an element that lies across the result, each dense along another dimension. Strided reads
// of it fetch a line of memory for each element (H200: 420 GB/s), so with many elements it is first transposed into the
// result's order.
struct AcrossPlan {
  StridedShape<2> shape;  // of the copy
  TransposePlan transpose;
};
template <int N>
std::optional<AcrossPlan> across_plan(const DeviceProfile& profile, const StridedShape<N>& shape, int k,
                                      uint64_t address, size_t size);
// The strides of that copy.
template <int N>
void lie_in_order(StridedShape<N>& shape, int k) {
  int64_t dense = 1;
  for (int i = 0; i < shape.ndim; ++i) {
    shape.strides[k][i] = dense;
    dense *= shape.sizes[i];
  }
}

// `offsets` in elements, of the piece from the operands' addresses.
template <int N>
PointwisePlan<N> pointwise_plan(const DeviceProfile& profile, const PointwiseProblem<N>& problem,
                                const StridedShape<N>& piece, const std::array<int64_t, N>& offsets);
template <int N>
std::string text_of(const PointwisePlan<N>& plan);

// Float64 by integer code.
inline bool computes_in_double_bits(const DeviceProfile& profile, DType arithmetic) {
  return arithmetic == DType::f64 && !profile.float64;
}

// The grid of the next launch of *_simd.comp. as_uniform() takes three octal digits of an index, and every workgroup
// must have work: what is left is launched next.
inline Grid simd_grid(int64_t groups) {
  constexpr int64_t kAxis = 512;
  const int64_t x = std::min(groups, kAxis);
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(std::min(groups / x, kAxis))};
}

}  // namespace aule::ops
