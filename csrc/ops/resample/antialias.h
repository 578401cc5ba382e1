// Antialiased resizing of images.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "ops/resample/resample.h"

namespace aule::ops {

enum class Antialias : int { linear = 0, cubic = 1, lanczos = 2 };

// `scales` of height and width, as those of upsample().
void upsample_antialias(Antialias filter, const at::Tensor& self, at::IntArrayRef output_size, bool align_corners,
                        std::array<Scale, 2> scales, const at::Tensor& out);
void upsample_antialias_backward(Antialias filter, const at::Tensor& grad_output, at::IntArrayRef output_size,
                                 at::IntArrayRef input_size, bool align_corners, std::array<Scale, 2> scales,
                                 const at::Tensor& grad_input);

}  // namespace aule::ops
