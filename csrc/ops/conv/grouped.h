// Convolutions of thin groups, depthwise above all, without copies between memory formats (grouped_conv.comp,
// grouped_conv_weight.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include "core/access.h"
#include "ops/conv/geometry.h"
#include "ops/conv/halves_plan.h"

namespace aule::ops {

// y of x, or x's gradient of y's; `g` maps x to y, the weight is [groups * out channels, channels, ...]. False where
// the sizes are another kernel's: then nothing was done. x and y are dense in `format` and not empty; `bias`, of the
// same dtype and contiguous, may be undefined.
bool grouped_conv(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& y, const at::Tensor& bias, int64_t groups, at::MemoryFormat format);
// The weight's gradient, contiguous, of x and y's gradient; the same otherwise.
bool grouped_conv_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y,
                         int64_t groups, at::MemoryFormat format);

// Arithmetic of a pass of any convolution, for traces: each result is summed over a group's channels and the taps.
Work conv_work(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& y, int64_t groups);

}  // namespace aule::ops
