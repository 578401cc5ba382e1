// For kernels that write contiguous results only.
#pragma once
#include <ATen/core/Tensor.h>
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

}  // namespace aule::ops
