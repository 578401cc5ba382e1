// Copies and fills on the device: any dtypes, any strides, conjugate and negative bits on both sides.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace aule::ops {

// Both on one aule device, of equal sizes (src expanded by the caller; its strides may be 0), not overlapping.
// Equal dtypes move bits, others convert as PyTorch's CPU does, float64 by integer code on devices without float64.
// Dtypes without arithmetic (float8, uint16 to uint64) raise NotImplementedError unless only bits move.
void copy_strided(const at::Tensor& dst, const at::Tensor& src);

// False where a conversion on the device is refused for the dtypes' sake.
bool converts_on_device(c10::ScalarType dst, c10::ScalarType src);

void fill_kernel(const at::Tensor& dst, const at::Scalar& value);
void fill_zero(const at::Tensor& dst);

at::Tensor& fill__scalar(at::Tensor& self, const at::Scalar& value);
at::Tensor& fill__tensor(at::Tensor& self, const at::Tensor& value);
at::Tensor& zero_(at::Tensor& self);

}  // namespace aule::ops
