// Strided convolutions as convolutions of stride 1 over blocks of places: a pure function of sizes.
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"
#include "ops/conv/geometry.h"
#include "ops/conv/halves_plan.h"

namespace aule::ops {

// Places y = block * b + r - pad of the image are channel (r, c) of place b of an image of `size`.
struct BlocksPlan {
  ConvGeometry g;  // of stride 1, over the blocks: size and kernel count blocks
  ConvGeometry::Extent block, pad, kernel;
  int64_t channels = 0, padded = 0;  // of the image; of a block, in whole 16 bytes
};

// Nothing: this pass of the convolution is better off with its taps. One group.
std::optional<BlocksPlan> blocks_plan(const ConvGeometry& g, DType dtype, ConvPass pass, int64_t images,
                                      int64_t channels);
std::string text_of(const BlocksPlan& plan);

}  // namespace aule::ops
