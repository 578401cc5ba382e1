// Images and weights of a convolution as blocks of their places (space_to_depth.comp), and back.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/conv/blocks_plan.h"

namespace aule::ops {

// [images, padded, ...] channels-last, of an image of any strides.
at::Tensor image_to_blocks(const BlocksPlan& plan, const at::Tensor& image);
// To an image of these sizes; places in no block are the bias, or 0 where that is undefined.
at::Tensor image_from_blocks(const BlocksPlan& plan, const at::Tensor& blocks, at::IntArrayRef sizes,
                             const at::Tensor& bias, at::MemoryFormat format);
// [out channels, padded, ...]
at::Tensor weight_to_blocks(const BlocksPlan& plan, const at::Tensor& weight);
at::Tensor weight_from_blocks(const BlocksPlan& plan, const at::Tensor& blocks, int64_t dims);
// A bias of each channel, for each place of a block.
at::Tensor bias_to_blocks(const BlocksPlan& plan, const at::Tensor& bias);

}  // namespace aule::ops
