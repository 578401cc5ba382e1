// Registration helpers. PyTorch adds no device guard to hand-registered kernels, so every row goes through a wrapper:
//
//   TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl(ROW("mm.out", ops::mm_out)); }
//
// It makes the first tensor argument's device current for the call (tensors, optional tensors, tensor lists). A call
// that the kernel declines runs on the CPU. GUARDED has the device guard alone: for operators that the CPU cannot do
// (memory, copies, views) and for our own.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/fallback/fallback.h"
#include "ops/tensor/one_device.h"
#include "ops/tensor/overlap.h"

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

// True if a tensor may be on another device than the call's: only check_one_device() knows which of them may.
inline bool is_elsewhere(c10::Device device, const at::Tensor& t) {
  return t.defined() && t.device() != device && t.dim() > 0;
}
// Written to, hence no scalar.
inline bool is_elsewhere(c10::Device device, at::Tensor& t) { return t.defined() && t.device() != device; }
inline bool is_elsewhere(c10::Device device, const std::optional<at::Tensor>& t) {
  return t.has_value() && is_elsewhere(device, *t);
}
template <class T>
bool is_elsewhere(c10::Device device, const T& value) {
  if constexpr (std::is_same_v<T, at::ITensorListRef> || std::is_same_v<T, at::TensorList>) {
    for (const at::Tensor& t : value)
      if (is_elsewhere(device, t)) return true;
  }
  return false;
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

// An operator's name, "mul.Tensor", as a template argument. Operators of other libraries have theirs before it.
template <size_t n>
struct OpName {
  char text[n + 6] = {'a', 't', 'e', 'n', ':', ':'};
  constexpr OpName(const char (&name)[n]) {
    std::copy_n(name, n, text + (std::string_view(name).find("::") == std::string_view::npos ? 6 : 0));
  }
};

template <class T>
constexpr bool is_written = std::is_same_v<T, at::Tensor&>;
template <class R>
constexpr bool returns_references = false;
template <class... T>
constexpr bool returns_references<std::tuple<T&...>> = true;

// The results that the CPU left on the stack, as the kernel's type. References are arguments that were written to.
template <class R>
struct Results {
  template <class... A>
  static R from(torch::jit::Stack& stack, const A&...) {
    return std::move(stack.back()).template to<R>();
  }
};
template <>
struct Results<void> {
  template <class... A>
  static void from(torch::jit::Stack&, const A&...) {}
};
template <class... T>
struct Results<std::tuple<T...>> {
  template <class... A>
  static std::tuple<T...> from(torch::jit::Stack& stack, const A&...) {
    return take(stack, std::index_sequence_for<T...>{});
  }
  template <size_t... i>
  static std::tuple<T...> take(torch::jit::Stack& stack, std::index_sequence<i...>) {
    return {std::move(stack[i]).template to<T>()...};
  }
};

// A tensor among the arguments of a call, as reads_what_it_writes() takes it.
template <class A, class T>
ops::Operand operand(const T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) return {&value, is_written<A>};
  if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) return {value.has_value() ? &*value : nullptr, false};
  return {};
}

// fn with the device guard and PyTorch's checks of devices and of memory that operands share. A call that it declines
// by c10::NotImplementedError (for a dtype without arithmetic, say) runs on the CPU as a whole, or is an error in
// strict mode. A kernel must decline before it writes to an argument. After work was recorded the error is thrown on,
// because an in-place operator must not be applied twice.
template <auto fn, OpName name>
struct Kernel;
template <class R, class... A, R (*fn)(A...), OpName name>
struct Kernel<fn, name> {
  static constexpr bool kWrites = std::is_void_v<R> || (is_written<A> || ...);

  static R call(A... args) {
    const std::optional<c10::Device> device = first_device(args...);
    c10::OptionalDeviceGuard guard(device);
    if (device.has_value() && (is_elsewhere(*device, args) || ...)) ops::check_one_device(name.text, boxed(args...));
    if constexpr ((is_written<A> || ...))
      if (ops::reads_what_it_writes(name.text, {operand<A>(args)...})) return boxed_by(ops::run_with_copies, args...);
    const uint64_t recorded = kWrites ? ops::recorded_commands() : 0;
    try {
      return fn(args...);
    } catch (const c10::NotImplementedError&) {
      if (ops::is_strict() || (kWrites && recorded != ops::recorded_commands())) throw;
    }
    return on_cpu(args...);
  }

  static R on_cpu(A... args) { return boxed_by(ops::cpu_fallback, args...); }

 private:
  static R boxed_by(void (*run)(const char*, torch::jit::Stack*), A... args) {
    torch::jit::Stack stack = boxed(args...);
    run(name.text, &stack);
    if constexpr (std::is_same_v<R, at::Tensor&>) {
      return *written<1>(args...).front();
    } else if constexpr (returns_references<R>) {
      return std::apply([](auto*... result) { return R(*result...); }, written<std::tuple_size_v<R>>(args...));
    } else {
      return Results<R>::from(stack, args...);
    }
  }

  static torch::jit::Stack boxed(A... args) {
    torch::jit::Stack stack;
    stack.reserve(sizeof...(A));
    (stack.emplace_back(args), ...);
    return stack;
  }

  // The last n arguments that are written, which are the results. The running statistics of batch normalization are
  // written, too, and come before them.
  template <size_t n>
  static std::array<at::Tensor*, n> written(A... args) {
    std::array<at::Tensor*, n> last{};
    const auto look = [&]<class T>(std::type_identity<T>, auto& value) {
      if constexpr (is_written<T>) {
        std::shift_left(last.begin(), last.end(), 1);
        last.back() = &value;
      }
    };
    (look(std::type_identity<A>{}, args), ...);
    return last;
  }
};

}  // namespace aule::aten

// A plain pointer and no TORCH_FN, so that operators of one signature share torch's wrappers, which compile slowly.
#define GUARDED(fn) (::aule::aten::Guarded<&fn>::call)
// Both arguments of m.impl for an operator of ATen that computes.
#define ROW(name, fn) name, (::aule::aten::Kernel<&fn, ::aule::aten::OpName(name)>::call)
