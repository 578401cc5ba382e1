#include "ops/copy/plan.h"

#include <algorithm>

#include "core/raw_dtype.h"
#include "kernels_copy.gen.h"
#include "ops/tensor/strided_params.h"

namespace aule::ops {

bool copies_by_kernel(const DeviceProfile& profile, uint64_t addresses, uint64_t bytes) {
  return !profile.is_software() && addresses % 16 == 0 && bytes >= 4096;
}

namespace {

// Whether two elements of two bytes can be moved at a time, along dimension 0 of the target and `j` of the source.
bool moves_pairs(DType raw, const StridedShape<2>& shape, int j, uint64_t addresses) {
  if (raw != DType::raw2 || addresses % 4 != 0 || shape.sizes[0] < 64 || shape.sizes[j] < 64) return false;
  if (shape.sizes[0] % 2 != 0 || shape.sizes[j] % 2 != 0) return false;
  for (int i = 0; i < shape.ndim; ++i)
    if ((i != 0 && shape.strides[0][i] % 2 != 0) || (i != j && shape.strides[1][i] % 2 != 0)) return false;
  return true;
}

}  // namespace

std::optional<TransposePlan> transpose_plan(const DeviceProfile& profile, DType raw, const StridedShape<2>& shape,
                                            uint64_t addresses) {
  if (profile.is_software() || shape.ndim < 2 || shape.strides[0][0] != 1) return {};
  if (shared_bytes(kernel::transpose(), {.dtype = raw}) > profile.shared_bytes) return {};
  if (profile.max_workgroup_invocations < 256) return {};
  int j = 1;
  while (j < shape.ndim && shape.strides[1][j] != 1) ++j;
  if (j == shape.ndim || shape.ndim > 6 || shape.sizes[0] < 16 || shape.sizes[j] < 16) return {};
  uint64_t batch = 1;
  for (int i = 1; i < shape.ndim; ++i)
    if (i != j) batch *= static_cast<uint32_t>(shape.sizes[i]);
  const bool pairs = moves_pairs(raw, shape, j, addresses);
  const int64_t side = pairs ? 64 : 32, x = ceil_div(shape.sizes[0], side), y = ceil_div(shape.sizes[j], side);
  if (x > 65535 || y > 65535 || batch > 65535) return {};
  return TransposePlan{j, pairs, Grid{narrow<uint32_t>(x), narrow<uint32_t>(y), narrow<uint32_t>(batch)}};
}

WideUnits wide_units(DType raw, const StridedShape<2>& shape, uint64_t addresses) {
  const auto size = static_cast<int64_t>(dtype_size(raw));
  const bool rows = shape.strides[0][0] == 1 && shape.strides[1][0] == 1;
  const auto divides = [&](int64_t elements) {
    return shape.sizes[0] % elements == 0 && addresses % static_cast<uint64_t>(elements * size) == 0 &&
           shape.packed(0, narrow<int>(elements)) && shape.packed(1, narrow<int>(elements));
  };
  int64_t elements = 1;
  while (rows && 2 * elements * size <= 16 && divides(2 * elements)) elements *= 2;
  WideUnits units{raw, kStridedVec, shape};
  if (elements == 1) return units;
  units.raw = raw_dtype(static_cast<size_t>(elements * size));
  units.each = std::max(1, kStridedVec / narrow<int>(std::max<int64_t>(elements * size / 4, 1)));
  units.shape.sizes[0] /= elements;
  for (auto& strides : units.shape.strides)
    for (int i = 1; i < shape.ndim; ++i) strides[i] /= elements;
  return units;
}

bool leaves_list(const DeviceProfile& profile, uint64_t bytes) { return profile.is_software() && bytes >= 65536; }

bool splits_aligned(uint64_t aligned_bytes, size_t others) { return others == 0 || aligned_bytes >= uint64_t{4} << 20; }

Conversion conversion_of(const DeviceProfile& profile, DType dst, DType src) {
  if (dst == src) return Conversion::raw;
  if (is_complex(dst) || is_complex(src)) {
    const auto is_wide = [](DType t) { return t == DType::f64 || t == DType::c128; };
    return is_wide(dst) || is_wide(src) ? Conversion::complex128 : Conversion::complex64;
  }
  if (dst == DType::f64 || src == DType::f64) return profile.float64 ? Conversion::float64 : Conversion::float64_bits;
  return is_floating(dst) || is_floating(src) ? Conversion::float32 : Conversion::int64;
}

const char* name_of(Conversion conversion) {
  switch (conversion) {
    case Conversion::raw: return "raw";
    case Conversion::float32: return "float32";
    case Conversion::int64: return "int64";
    case Conversion::float64: return "float64";
    case Conversion::complex64: return "complex64";
    case Conversion::complex128: return "complex128";
    default: return "float64 bits";
  }
}

}  // namespace aule::ops
