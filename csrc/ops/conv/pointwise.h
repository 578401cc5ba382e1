// Convolutions of one tap: matrix products, of the rows of channels-last images or of planes as they lie.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/conv/geometry.h"

namespace aule::ops {

// One tap, no padding, one group: the three below serve.
bool is_pointwise(const ConvGeometry& g, int64_t groups);

// Results are contiguous where the images are read as planes, else channels-last. The bias may be undefined.
at::Tensor pointwise_forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias);
at::Tensor pointwise_backward_input(const ConvGeometry& g, const at::Tensor& weight, const at::Tensor& grad,
                                    const at::Tensor& bias);
at::Tensor pointwise_backward_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& grad);

}  // namespace aule::ops
