// Results that are made elsewhere than in `out`.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

namespace aule::ops {

// run(t) with `out` itself, or, where `out` has another layout (channels_last, say), with a contiguous t copied there.
template <class Run>
void into(const at::Tensor& out, const Run& run) {
  if (out.numel() == 0) return;
  if (out.is_contiguous()) return run(out);
  const at::Tensor dense = at::empty(out.sizes(), out.options());
  run(dense);
  out.copy_(dense);
}

// What an operator's functional form gave, as its form with `out=` gives it.
inline at::Tensor& hand_over(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace aule::ops
