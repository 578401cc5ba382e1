// Sizes as PyTorch gives them, as extents of three dimensions.
#pragma once
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "ops/conv/geometry.h"

namespace aule::ops {

// Spatial sizes as three, with `fill` in front of 1-D and 2-D ones. One value stands for all.
inline ConvGeometry::Extent extent(c10::IntArrayRef values, int64_t spatial, int32_t fill) {
  ConvGeometry::Extent e{fill, fill, fill};
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t v = values[values.size() == 1 ? 0 : static_cast<size_t>(d)];
    TORCH_CHECK(v >= INT32_MIN && v <= INT32_MAX, "convolution: ", v, " does not fit 32 bits");
    e[static_cast<size_t>(3 - spatial + d)] = static_cast<int32_t>(v);
  }
  return e;
}

}  // namespace aule::ops
