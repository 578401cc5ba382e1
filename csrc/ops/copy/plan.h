// Kernels that copy, transpose and convert: pure functions of sizes, dtypes and what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"
#include "ops/tensor/strided_shape.h"

namespace aule::ops {

// True for copy_words.comp, false for a transfer command. A GPU copies faster by the kernel (H200: the kernel's head);
// a CPU does not. `addresses`: of source and target, or-ed.
bool copies_by_kernel(const DeviceProfile& profile, uint64_t addresses, uint64_t bytes);

// transpose.comp: the target is dense along dimension 0, the source along another. The rest are the batch.
struct TransposePlan {
  int dense_dim = 0;   // the source's
  bool pairs = false;  // of elements of two bytes, in tiles of 64 x 64
  Grid grid;
};
// Nothing where copy_strided.comp is faster or has to do it: on software devices, for few elements along either, and
// for more dimensions, workgroups or shared memory than there is. `addresses`: of source and target, or-ed.
std::optional<TransposePlan> transpose_plan(const DeviceProfile& profile, DType raw, const StridedShape<2>& shape,
                                            uint64_t addresses);

// copy_strided.comp, of bits: the same copy in units of up to 16 bytes, which divide rows, strides and `addresses` (of
// source and target, or-ed), and how many of them an invocation moves.
struct WideUnits {
  DType raw;
  int each = 4;
  StridedShape<2> shape;
};
WideUnits wide_units(DType raw, const StridedShape<2>& shape, uint64_t addresses);

// copy_many.comp. True if a dense piece of a list of copies is a transfer command of its own: on a software device that
// is a memcpy. The bound is an estimate.
bool leaves_list(const DeviceProfile& profile, uint64_t bytes);
// True if the pieces that are aligned for 16-byte accesses are a dispatch apart from the `others` that are not. With
// few bytes the dispatch costs more than it saves; the bound is an estimate.
bool splits_aligned(uint64_t aligned_bytes, size_t others);

// The arithmetic of a conversion.
enum class Conversion : uint8_t { raw, float32, int64, float64, float64_bits, complex64, complex128 };
Conversion conversion_of(const DeviceProfile& profile, DType dst, DType src);
const char* name_of(Conversion conversion);

}  // namespace aule::ops
