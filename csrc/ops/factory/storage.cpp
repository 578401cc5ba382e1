#include "ops/factory/storage.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>

#include "runtime/streams.h"

namespace aule::ops {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Allocator* allocator() { return c10::GetAllocator(c10::DeviceType::PrivateUse1); }

void check_options(const char* op, std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == at::kStrided, op, ": layout ",
                              c10::layout_or_default(layout), " is not supported on device aule");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), op, ": pin_memory is for CPU tensors only");
}

void grow_storage(const at::Tensor& self, size_t bytes) {
  if (bytes > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
}

at::Tensor filled_if_deterministic(at::Tensor tensor) {
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

}  // namespace

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device>,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  check_options("empty", layout, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), memory_format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device>, std::optional<bool> pin_memory) {
  check_options("empty_strided", layout, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype)));
}

at::Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout, std::optional<at::Device>,
                                 std::optional<bool> pin_memory) {
  check_options("_efficientzerotensor", layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const auto type = c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  const c10::Device device(c10::DeviceType::PrivateUse1, runtime::current_device());
  c10::Storage storage(c10::Storage::use_byte_size_t(),
                       at::detail::computeStorageNbytesContiguous(size, type.itemsize()), c10::DataPtr(nullptr, device),
                       nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor), type);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return tensor;
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}
at::Tensor view(const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); }
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}
at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}
at::Tensor view_as_real(const at::Tensor& self) { return at::native::view_as_real(self); }
at::Tensor view_as_complex(const at::Tensor& self) { return at::native::view_as_complex(self); }
// PyTorch's own resize_ touches the storage as host memory before torch 2.12.
const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  if (self.sizes() != size) {
    auto* impl = self.unsafeGetTensorImpl();
    const size_t need = at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(),
                                                                   static_cast<size_t>(self.storage_offset()));
    // First what may fail: a tensor must not be larger than its storage.
    if (c10::multiply_integers(size) > 0) grow_storage(self, need);
    impl->set_sizes_contiguous(size);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "resize_: unsupported memory format ", *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto elems = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_source_storage_offset(self, std::move(source), 0, {elems}, {});
}
at::Tensor& set_source_storage_offset(at::Tensor& self, at::Storage source, int64_t storage_offset,
                                      at::IntArrayRef size, at::IntArrayRef stride) {
  const at::Storage before = self.storage();
  at::native::checkSetStorage(self, source, storage_offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  const size_t need = stride.data() == nullptr ? at::detail::computeStorageNbytesContiguous(
                                                     size, self.dtype().itemsize(), static_cast<size_t>(storage_offset))
                                               : at::detail::computeStorageNbytes(size, stride, self.dtype().itemsize(),
                                                                                  static_cast<size_t>(storage_offset));
  try {
    if (c10::multiply_integers(size) > 0) grow_storage(self, need);
  } catch (...) {
    impl->set_storage_keep_dtype(before);  // with the sizes that fit it
    throw;
  }
  impl->set_storage_offset(storage_offset);
  if (stride.data() == nullptr)
    impl->set_sizes_contiguous(size);
  else
    impl->set_sizes_and_strides(size, stride);
  return self;
}
at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}
at::Tensor& set_empty(at::Tensor& self) {
  at::Storage storage(c10::Storage::use_byte_size_t(), 0, allocator(), /*resizable=*/true);
  return set_source_storage_offset(self, std::move(storage), 0, {0}, {});
}

bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& t) {
    return t.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) &&
           (t.is_cpu() || t.device().type() == c10::DeviceType::PrivateUse1);
  };
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()) || (dense(self) && dense(from));
}

}  // namespace aule::ops
