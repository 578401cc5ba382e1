// Registration helpers. PyTorch adds no device guard to hand-registered kernels, so every row goes through GUARDED:
//
//   TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("mm.out", GUARDED(ops::mm_out)); }
//
// The wrapper makes the first tensor argument's device current for the call (tensors, optional tensors, tensor lists).
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>

namespace aule::aten {

inline std::optional<c10::Device> device_in(const at::Tensor& t) {
  if (t.defined() && t.device().type() == c10::DeviceType::PrivateUse1) return t.device();
  return std::nullopt;
}
inline std::optional<c10::Device> device_in(const std::optional<at::Tensor>& t) {
  return t.has_value() ? device_in(*t) : std::nullopt;
}
inline std::optional<c10::Device> device_in(const std::optional<c10::Device>& d) {
  if (d.has_value() && d->type() == c10::DeviceType::PrivateUse1) return d;
  return std::nullopt;
}
inline std::optional<c10::Device> device_in(at::TensorList list) {
  for (const auto& t : list)
    if (auto d = device_in(t)) return d;
  return std::nullopt;
}
template <class T>
std::optional<c10::Device> device_in(const T& value) {
  if constexpr (std::is_same_v<T, at::ITensorListRef>) {
    for (const auto& t : value)
      if (auto d = device_in(t)) return d;
  }
  return std::nullopt;
}
inline std::optional<c10::Device> first_device() { return std::nullopt; }
template <class First, class... Rest>
std::optional<c10::Device> first_device(const First& first, const Rest&... rest) {
  if (auto d = device_in(first)) return d;
  return first_device(rest...);
}

template <auto fn>
struct Guarded;
template <class R, class... A, R (*fn)(A...)>
struct Guarded<fn> {
  static R call(A... args) {
    c10::OptionalDeviceGuard guard(first_device(args...));
    return fn(std::forward<A>(args)...);
  }
};

}  // namespace aule::aten

// A plain pointer, no TORCH_FN: operators of one signature then share torch's wrappers, whose compilation takes long.
#define GUARDED(fn) (::aule::aten::Guarded<&fn>::call)
