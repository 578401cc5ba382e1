// Images whose channels are adjacent: [images, depth, height, width, channels].
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Dense images of [images, channels, ...] with 1 to 3 spatial dimensions, the channels padded to whole 16 bytes by
// zeros.
at::Tensor channels_last(const at::Tensor& t);
// [images, channels, ...] with `dims` dimensions, a view.
at::Tensor channels_first(const at::Tensor& last, int64_t dims);

}  // namespace aule::ops
