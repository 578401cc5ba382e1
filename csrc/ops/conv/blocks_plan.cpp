#include "ops/conv/blocks_plan.h"

#include <algorithm>

#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

using Extent = ConvGeometry::Extent;

std::string extent_text(const Extent& e) {
  return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]);
}

}  // namespace

std::optional<BlocksPlan> blocks_plan(const ConvGeometry& g, DType dtype, ConvPass pass, int64_t images,
                                      int64_t channels) {
  constexpr Extent ones{1, 1, 1};
  if (g.dilation != ones || g.stride == ones) return std::nullopt;
  BlocksPlan plan{.g = g, .block = g.stride, .pad = g.pad, .kernel = g.kernel, .channels = channels};
  plan.g.stride = ones;
  plan.g.pad = {0, 0, 0};
  for (size_t d = 0; d < 3; ++d) {
    plan.g.kernel[d] = ceil_div(g.kernel[d], g.stride[d]);
    plan.g.size[d] = g.out_size[d] + plan.g.kernel[d] - 1;
  }
  const auto vec = static_cast<int64_t>(16 / dtype_size(dtype));
  const auto padded = [&](int64_t n) { return round_up(n, vec); };
  plan.padded = padded(channels * ConvGeometry::volume(g.stride));
  // Elements that are summed over, of blocks and of taps, with those that only fill 16 bytes.
  if (plan.g.taps() * plan.padded > g.taps() * padded(channels)) return std::nullopt;
  // Channels that fill 16 bytes are gathered where they lie. But a gradient of the input, whose places are
  // several strided results, is a single product where kernels do not overlap.
  const bool apart = plan.g.taps() == 1;
  if (channels % vec == 0 && !(pass == ConvPass::input && apart)) return std::nullopt;
  const int64_t image = channels * ConvGeometry::volume(g.size),
                blocks = plan.padded * ConvGeometry::volume(plan.g.size);
  if (images * std::max(image, blocks) >= kIndexLimit) return std::nullopt;
  return plan;
}

std::string text_of(const BlocksPlan& plan) {
  return "blocks of " + extent_text(plan.block) + " as " + std::to_string(plan.padded) + " channels, " +
         extent_text(plan.g.size) + " by " + extent_text(plan.g.kernel);
}

}  // namespace aule::ops
