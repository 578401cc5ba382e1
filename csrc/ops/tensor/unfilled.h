// Results of an operator that its kernels write whole, on the current device: at::empty without its two ways through
// the dispatcher. Nothing fills them for deterministic algorithms either.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>

#include <optional>

namespace aule::ops {

inline at::Tensor unfilled(at::IntArrayRef sizes, at::ScalarType dtype,
                           std::optional<at::MemoryFormat> format = std::nullopt) {
  return at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype, format);
}

inline at::Tensor unfilled_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

}  // namespace aule::ops
