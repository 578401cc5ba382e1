// Ops about streams rather than values.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace aule::ops {
// The memory of `self` is not reused before the work that `stream` holds by the time it is freed has passed.
void record_stream(at::Tensor& self, c10::Stream stream);
}  // namespace aule::ops
