// Copies and fills on the device: any dtypes, any strides, conjugate and negative bits on both sides.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "core/dtype.h"
#include "ops/copy/plan.h"
#include "ops/tensor/strided_shape.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// Both are on one aule device, of equal sizes (the caller expands src, whose strides may be 0), and do not overlap.
// Equal dtypes are copied as bits. Others convert as on PyTorch's CPU, float64 by integer code on devices without it.
// Dtypes without arithmetic (float8, uint16 to uint64) raise NotImplementedError, unless they are copied as bits.
void copy_strided(const at::Tensor& dst, const at::Tensor& src);

// A piece that transpose_plan() has a plan for.
void launch_transpose(CommandStream& stream, const TransposePlan& plan, DType raw, uint64_t to, uint64_t from,
                      const StridedShape<2>& shape);

// False if the device has no conversion between these dtypes.
bool converts_on_device(c10::ScalarType dst, c10::ScalarType src);

// True for equal dtypes and for integers of equal size.
bool same_bits(c10::ScalarType dst, c10::ScalarType src);
// The axis that copy_strided.comp and copy_many.comp share.
template <class Axis>
Axis copy_axis(Conversion via) {
  switch (via) {
    case Conversion::raw: return Axis::raw;
    case Conversion::float32: return Axis::float_;
    case Conversion::int64: return Axis::int64;
    case Conversion::float64_bits: return Axis::double_bits;
    default: return Axis::double_;
  }
}

void fill_kernel(const at::Tensor& dst, const at::Scalar& value);
void fill_zero(const at::Tensor& dst);

at::Tensor& fill__scalar(at::Tensor& self, const at::Scalar& value);
at::Tensor& fill__tensor(at::Tensor& self, const at::Tensor& value);
at::Tensor& zero_(at::Tensor& self);

}  // namespace aule::ops
