#include "ops/tensor/tensor_arg.h"

#include <c10/util/Exception.h>

#include "core/raw_dtype.h"
#include "runtime/device_info.h"
#include "runtime/streams.h"

namespace aule::ops {

bool has_dtype(c10::ScalarType t) {
  switch (t) {
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
    case at::kDouble:
    case at::kChar:
    case at::kByte:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kBool: return true;
    default: return false;
  }
}

DType dtype_of(c10::ScalarType t, const char* op) {
  switch (t) {
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kDouble: return DType::f64;
    case at::kChar: return DType::i8;
    case at::kByte: return DType::u8;
    case at::kShort: return DType::i16;
    case at::kInt: return DType::i32;
    case at::kLong: return DType::i64;
    case at::kBool: return DType::b8;
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": dtype ", t, " has no arithmetic on device aule");
  }
}
DType real_or_complex_dtype_of(c10::ScalarType t, const char* op) {
  switch (t) {
    case at::kComplexFloat: return DType::c64;
    case at::kComplexDouble: return DType::c128;
    case at::kComplexHalf: return DType::c32;
    default: return dtype_of(t, op);
  }
}
DType dtype_of(const at::Tensor& t, const char* op) { return dtype_of(t.scalar_type(), op); }

DType raw_dtype_of(const at::Tensor& t) {
  const auto bytes = static_cast<size_t>(t.element_size());
  TORCH_CHECK(bytes == dtype_size(raw_dtype(bytes)), "aule: no kernel moves elements of ", bytes, " bytes");
  return raw_dtype(bytes);
}

CommandStream& current(const at::Tensor& t) { return runtime::current_stream(t.device().index()); }
CommandStream& current(int device) { return runtime::current_stream(static_cast<c10::DeviceIndex>(device)); }
const DeviceProfile& profile_of(int device) { return runtime::device_profile(static_cast<c10::DeviceIndex>(device)); }
const DeviceProfile& profile_of(const at::Tensor& t) { return runtime::device_profile(t.device().index()); }

namespace {
bool is_ours(const at::Tensor& t) { return t.device().type() == c10::DeviceType::PrivateUse1; }
}  // namespace

std::string two_devices(c10::Device a, c10::Device b) {
  return c10::str("Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b,
                  "!");
}

void check_same_device(const char* op, std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor* t : tensors)
    if (t != nullptr && t->defined() && (first == nullptr || !is_ours(*first))) first = t;
  int position = 0;
  for (const at::Tensor* t : tensors) {
    ++position;
    if (t == nullptr || !t->defined()) continue;
    TORCH_CHECK(t->device() == first->device(), two_devices(first->device(), t->device()), " (when checking argument ",
                position, " of ", op, ")");
    TORCH_CHECK(is_ours(*t), op, ": expected tensors on device aule, but argument ", position, " is on ", t->device());
  }
}

void check_has_memory(const at::TensorBase& t) {
  TORCH_CHECK(t.numel() == 0 || t.storage().data() != nullptr, "aule: a tensor of sizes ", t.sizes(),
              " has no memory: its storage was resized to 0 bytes, or its values wait on the host "
              "(torch_aule.scheduler)");
}

uint64_t address_of(const at::Tensor& t) {
  TORCH_CHECK(is_ours(t),
              two_devices(c10::Device(c10::DeviceType::PrivateUse1, runtime::current_device()), t.device()));
  const c10::TensorImpl& impl = *t.unsafeGetTensorImpl();
  if (impl.numel() == 0) return 0;  // whether its storage has memory or not
  const auto storage = reinterpret_cast<uint64_t>(impl.storage().data());
  if (C10_UNLIKELY(storage == 0)) check_has_memory(t);
  return storage + static_cast<uint64_t>(impl.storage_offset()) * impl.itemsize();
}

namespace {
// Bytes from element 0 to the end of the last element that sizes and strides reach. PyTorch has no negative strides.
uint64_t extent_bytes(const at::Tensor& t) {
  if (t.numel() == 0) return 0;
  const auto item = static_cast<uint64_t>(t.element_size());
  if (t.is_contiguous()) return static_cast<uint64_t>(t.numel()) * item;
  uint64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += static_cast<uint64_t>((t.size(d) - 1) * t.stride(d));
  return (last + 1) * item;
}
}  // namespace

uint64_t TensorArgs::read(const at::Tensor& t) { return Args::read(address_of(t), extent_bytes(t)); }
uint64_t TensorArgs::write(const at::Tensor& t) { return Args::write(address_of(t), extent_bytes(t)); }

}  // namespace aule::ops
