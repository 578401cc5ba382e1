// Copies and fills on the device: any dtypes, any strides, conjugate and negative bits on both sides.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace aule::ops {

// Both are on one aule device, of equal sizes (the caller expands src, whose strides may be 0), and do not overlap.
// Equal dtypes are copied as bits. Others convert as on PyTorch's CPU, float64 by integer code on devices without it.
// Dtypes without arithmetic (float8, uint16 to uint64) raise NotImplementedError, unless they are copied as bits.
void copy_strided(const at::Tensor& dst, const at::Tensor& src);

// False if the device has no conversion between these dtypes.
bool converts_on_device(c10::ScalarType dst, c10::ScalarType src);

void fill_kernel(const at::Tensor& dst, const at::Scalar& value);
void fill_zero(const at::Tensor& dst);

at::Tensor& fill__scalar(at::Tensor& self, const at::Scalar& value);
at::Tensor& fill__tensor(at::Tensor& self, const at::Tensor& value);
at::Tensor& zero_(at::Tensor& self);

}  // namespace aule::ops
