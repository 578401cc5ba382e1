// Images whose channels are adjacent: [images, depth, height, width, channels].
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Dense images of [images, channels, ...] with 1 to 3 spatial dimensions, the channels padded to whole 16 bytes by
// zeros.
at::Tensor channels_last(const at::Tensor& t);
// [images, channels, ...] with `dims` dimensions, a view.
at::Tensor channels_first(const at::Tensor& last, int64_t dims);

// An operand that two passes of a convolution read, the gradient of its result: forms that one pass has brought it into
// serve the other one.
struct SharedOperand {
  at::Tensor tensor;
  at::Tensor contiguous, last;        // of the same numbers
  at::Tensor dense, largest, halves;  // of scaled_halves()

  bool is(const at::Tensor& t) const { return tensor.is_same(t); }
};

// `shared` may be null.
inline at::Tensor channels_last(const at::Tensor& t, SharedOperand* shared) {
  if (shared == nullptr || !shared->is(t)) return channels_last(t);
  if (!shared->last.defined()) shared->last = channels_last(t);
  return shared->last;
}

}  // namespace aule::ops
