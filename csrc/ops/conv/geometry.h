// Sizes of a convolution. Pure: knows neither tensors nor a device.
#pragma once
#include <array>
#include <cstdint>

namespace aule::ops {

// Kernels number elements and workgroups below this.
constexpr int64_t kIndexLimit = int64_t{1} << 31;

// A convolution from images of `size` to results of `out_size`; {depth, height, width}, with 1 in front of 1-D and 2-D
// ones.
struct ConvGeometry {
  using Extent = std::array<int32_t, 3>;
  Extent size, out_size, kernel, stride, pad, dilation;

  static int64_t volume(const Extent& e) { return int64_t{e[0]} * e[1] * e[2]; }
  int64_t positions() const { return volume(out_size); }
  int64_t taps() const { return volume(kernel); }
  // A 1x1 kernel that touches every pixel once: the image is its own columns.
  bool is_identity() const {
    return taps() == 1 && size == out_size && stride == Extent{1, 1, 1} && pad == Extent{0, 0, 0};
  }
};

}  // namespace aule::ops
