// Tensor -> {address, bytes, dtype}: the only such conversion, and what every op file starts from.
//
//   auto& stream = current(self);             // current stream of the tensor's device; op wrappers set the guard
//   TensorArgs args;
//   p.in = args.read(self);  p.out = args.write(out);
//   launch(stream, kernel::..., {.dtype = dtype_of(self, op)}, p, args, grid);
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string>

// No generated header here: include kernels_<family>.gen.h where kernel::NAME is used, so that one shader does not
// rebuild every op.
#include "core/device_profile.h"
#include "kernels/launch.h"

namespace aule::ops {

// The dtype's code; throws TypeError-like c10::Error naming `op` for complex, quantized and 8-bit float types.
DType dtype_of(const at::Tensor& t, const char* op);
DType dtype_of(c10::ScalarType t, const char* op);
bool has_dtype(c10::ScalarType t);
// The same, and the codes of complex dtypes: for the kernels that compute with them.
DType real_or_complex_dtype_of(c10::ScalarType t, const char* op);
// RAW code of the element size, for kernels that only move bits (any dtype, complex included).
DType raw_dtype_of(const at::Tensor& t);

CommandStream& current(const at::Tensor& t);
CommandStream& current(int device);
const DeviceProfile& profile_of(const at::Tensor& t);
const DeviceProfile& profile_of(int device);
inline const Caps& caps_of(const at::Tensor& t) { return profile_of(t); }
inline const Caps& caps_of(int device) { return profile_of(device); }

// PyTorch's words for tensors of two devices.
std::string two_devices(c10::Device a, c10::Device b);
// All defined tensors must be on aule and on one device; the error names op and argument.
void check_same_device(const char* op, std::initializer_list<const at::Tensor*> tensors);

class TensorArgs : public Args {
 public:
  using Args::read;
  using Args::read_write;
  using Args::write;
  // The address of element 0; the range registered is the extent that sizes and strides reach.
  uint64_t read(const at::Tensor& t);
  uint64_t write(const at::Tensor& t);
  uint64_t read_write(const at::Tensor& t) { return write(t); }
};

// A storage can be without memory while tensors of it live. A kernel would then write to what lies at their offset.
void check_has_memory(const at::TensorBase& t);
// Address without registering (only for ranges registered otherwise). Throws for a tensor without memory, and for one
// that is not on aule: a kernel would read host memory as the device's.
uint64_t address_of(const at::Tensor& t);

}  // namespace aule::ops
