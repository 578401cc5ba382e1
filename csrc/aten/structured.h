// PyTorch's structured kernels on our tensors: their meta() checks the arguments and asks for results, their impl()
// computes, by stubs that are registered for the device.
//
//   std::tuple<at::Tensor, at::Tensor> linalg_qr(const at::Tensor& a, std::string_view mode) {
//     return run_structured<at::native::structured_linalg_qr_out, 2>(a, mode);
//   }
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <torch/version.h>

#include <array>
#include <tuple>
#include <utility>

namespace aule::aten {

template <class Base, size_t n>
class Structured final : public Base {
 public:
  std::array<at::Tensor, n> results;

  const at::Tensor& maybe_get_output(int64_t i) override { return results[i]; }
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          at::DimnameList) override {
    make(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              at::DimnameList) override {
    make(i, sizes, strides, options);
  }
#else
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    make(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    make(i, sizes, strides, options);
  }
#endif

 private:
  void make(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) {
    results[i] = strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
  }
};

template <class Base, size_t n, class... Args>
auto run_structured(const Args&... args) {
  Structured<Base, n> kernel;
  kernel.meta(args...);
  return std::apply(
      [&](const auto&... results) {
        kernel.impl(args..., results...);
        return std::make_tuple(results...);
      },
      kernel.results);
}

// A result of the functional form as the form with `out=` gives it: with its strides where `out` is made anew.
inline at::Tensor& hand_over_strided(const at::Tensor& result, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  if (at::native::resize_output(out, result.sizes())) out.as_strided_(result.sizes(), result.strides());
  return out.copy_(result);
}

}  // namespace aule::aten
