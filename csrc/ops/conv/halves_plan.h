// Sums of convolutions without a matrix product, and of col2im: in one launch, or in halves that are added where a
// device's loops may not be as long as the sum. Pure functions of sizes and the device's limit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/caps.h"
#include "ops/conv/geometry.h"

namespace aule::ops {

// The result of a pass: the convolution's, or the gradient of its input or weight.
enum class ConvPass : uint8_t { forward, input, weight };

struct DirectProblem {
  ConvGeometry g;
  ConvPass pass = ConvPass::forward;
  // Sums besides those over taps, or for weights over positions: channels of a group, or images for weights.
  int64_t summed = 0;
};

// An axis to cut: {depth, height, width} of taps or positions, or what else is summed over.
inline constexpr size_t kSummedAxis = 3;

struct HalvesPlan {
  size_t axis = 0;                 // that is cut
  int64_t first = 0, rest = 0;     // of that axis, in each half
  std::vector<HalvesPlan> halves;  // two; none: one launch
};

// Nothing if no loop is short enough.
std::optional<HalvesPlan> direct_plan(const Caps& caps, const DirectProblem& problem);
HalvesPlan fold_plan(const Caps& caps, const ConvGeometry& g);  // of col2im; `summed` is never cut
std::string text_of(const HalvesPlan& plan);

// The problem of `count` from `from` on along an axis.
DirectProblem part_of(const DirectProblem& problem, size_t axis, int64_t from, int64_t count);
// The same windows with `count` taps of dimension `d` from `first` on.
ConvGeometry with_taps(ConvGeometry g, size_t d, int64_t first, int64_t count);

}  // namespace aule::ops
