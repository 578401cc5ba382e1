// Ops on streams.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace aule::ops {
// When `self` is freed, its memory is reused only after the work that `stream` has then.
void record_stream(at::Tensor& self, c10::Stream stream);
}  // namespace aule::ops
