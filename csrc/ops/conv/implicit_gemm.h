// Convolutions as matrix products whose gathered operand is never stored (implicit_gemm.comp), channels-last
// throughout: other layouts are converted on the way in. float16 and bfloat16 on matrix units, float32 by plain
// arithmetic on GPUs.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/conv/geometry.h"

namespace aule::ops {

// Whether the kernel takes such a convolution, of `channels` at `g.size`; of x only dtype, device and images count.
bool implicit_gemm_serves(const ConvGeometry& g, const at::Tensor& x, int64_t channels, int64_t out_channels,
                          int64_t groups);
// Results are channels-last; those of one tap lie as they are made with the fewest copies. Tensors have 3 to 5
// dimensions, the weight [out channels, channels / groups, ...].
at::Tensor implicit_gemm_forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, int64_t groups);
// A transposed convolution may add its bias. The format is a wish: results that are made in it need no copy.
at::Tensor implicit_gemm_backward_input(const ConvGeometry& g, const at::Tensor& weight, const at::Tensor& grad,
                                        const at::Tensor& bias, int64_t groups, at::MemoryFormat format);
at::Tensor implicit_gemm_backward_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& grad,
                                         int64_t groups);

}  // namespace aule::ops
