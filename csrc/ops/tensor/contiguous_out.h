// Results that are computed in another tensor than `out`.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

namespace aule::ops {

// Calls run(out) if `out` is contiguous. Else calls run(t) with a contiguous t, and copies t to `out`.
template <class Run>
void into(const at::Tensor& out, const Run& run) {
  if (out.numel() == 0) return;
  if (out.is_contiguous()) return run(out);
  const at::Tensor dense = at::empty(out.sizes(), out.options());
  run(dense);
  out.copy_(dense);
}

// Puts the result of an operator's functional form into `out`, as its form with `out=` does.
inline at::Tensor& hand_over(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace aule::ops
