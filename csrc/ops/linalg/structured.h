// PyTorch's own code of a structured operator over our stubs: its checks and shapes (`meta`), then its steps (`impl`).
//
//   Structured<at::native::structured_linalg_lu_factor_ex_out, 3> op({&lu, &pivots, &info});
//   op.run(a, pivot, check_errors);
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>

#include <array>
#include <utility>

#if __has_include(<ATen/core/Dimname.h>)  // before torch 2.13 outputs have names
#include <ATen/core/Dimname.h>
#define AULE_OUTPUT_NAMES , at::DimnameList
#else
#define AULE_OUTPUT_NAMES
#endif

namespace aule::ops {

template <class Op, size_t n>
class Structured final : public Op {
 public:
  explicit Structured(std::array<at::Tensor*, n> out) : out_(out) {}

  template <class... A>
  void run(const A&... args) {
    this->meta(args...);
    run_impl(std::make_index_sequence<n>{}, args...);
    for (size_t i = 0; i < n; ++i)
      if (own_[i].defined()) out_[i]->copy_(own_[i]);
  }

  // Strides that the steps rely on: other ones of `out` take a tensor in its place.
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options AULE_OUTPUT_NAMES) override {
    resize(*out_[i], sizes, strides, options);
    if (!strides.empty() && out_[i]->strides() != strides) own_[i] = at::empty_strided(sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options AULE_OUTPUT_NAMES) override {
    resize(*out_[i], sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t i) override { return output(i); }

 private:
  static void resize(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) {
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out.dtype(), " instead");
    TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                out.device(), " instead");
    const bool resized = at::native::resize_output(out, sizes);
    if (resized && !strides.empty()) out.as_strided_(sizes, strides);
  }
  const at::Tensor& output(size_t i) const { return own_[i].defined() ? own_[i] : *out_[i]; }
  template <size_t... i, class... A>
  void run_impl(std::index_sequence<i...>, const A&... args) {
    this->impl(args..., output(i)...);
  }

  std::array<at::Tensor*, n> out_;
  std::array<at::Tensor, n> own_;
};

}  // namespace aule::ops

#undef AULE_OUTPUT_NAMES
