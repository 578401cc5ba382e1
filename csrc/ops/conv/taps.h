// Reads of a pass: source `place * mul + off + tap * step` of an axis for a place of its result. Pure.
#pragma once
#include "ops/conv/geometry.h"

namespace aule::ops {

struct ConvTaps {
  using Extent = ConvGeometry::Extent;
  Extent kernel, mul, off, step;
};

// Of the result, and of the weight's gradient.
inline ConvTaps taps_of(const ConvGeometry& g) {
  return {g.kernel, g.stride, {-g.pad[0], -g.pad[1], -g.pad[2]}, g.dilation};
}
// Of the input's gradient at stride 1: the source is the output's gradient.
inline ConvTaps taps_of_input(const ConvGeometry& g) {
  return {g.kernel, {1, 1, 1}, g.pad, {-g.dilation[0], -g.dilation[1], -g.dilation[2]}};
}

}  // namespace aule::ops
