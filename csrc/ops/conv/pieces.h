// float32 operands of a convolution as 16-bit pieces, for the matrix units (gemm_bf16x3_operand.comp explains them):
// what torch.backends.fp32_precision "tf32" | "bf16" allows. "tf32": three products, about 16 bits; "bf16": one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/conv/channels_last.h"

namespace aule::ops {

enum class Operand : uint8_t { first, second };  // their pieces have another order
// [..., products * channels] of channels-last [..., channels], channels in whole 16 bytes of pieces.
at::Tensor pieces_of_channels(const at::Tensor& last, int products, Operand operand);
// [products * images, ..., channels], likewise.
at::Tensor pieces_of_images(const at::Tensor& last, int products, Operand operand);

// float32 operands of a product as float16 numbers, scaled by powers of two (shaders/matmul/half_scale.glsl).
// {the largest size in `x`, in `y`}. Both become dense, by copies if they are not. `shared` may be null.
at::Tensor largest_sizes(at::Tensor& x, at::Tensor& y, SharedOperand* shared);
// Of [images, channels, ...], as channels_last() gives it. `largest`: one element.
at::Tensor scaled_halves(const at::Tensor& t, const at::Tensor& largest, SharedOperand* shared);

}  // namespace aule::ops
