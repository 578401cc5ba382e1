// Interpolation (nearest, exact nearest, linear, cubic) and reflection / replication padding.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

enum class Interpolation : int { nearest = 0, nearest_exact = 1, linear = 2, cubic = 3 };
using Scale = std::optional<double>;

// `scales` as PyTorch hands them: output over input size, one per spatial axis, none where the sizes decide.
void upsample(Interpolation mode, const at::Tensor& self, at::IntArrayRef output_size, bool align_corners,
              std::initializer_list<Scale> scales, const at::Tensor& out);
void upsample_backward(Interpolation mode, const at::Tensor& grad_output, at::IntArrayRef output_size,
                       at::IntArrayRef input_size, bool align_corners, std::initializer_list<Scale> scales,
                       const at::Tensor& grad_input);

enum class EdgePad { reflection, replication };
void edge_pad(EdgePad mode, int dims, const at::Tensor& self, at::IntArrayRef padding, const at::Tensor& out);
void edge_pad_backward(EdgePad mode, int dims, const at::Tensor& grad_output, const at::Tensor& self,
                       at::IntArrayRef padding, const at::Tensor& grad_input);

}  // namespace aule::ops
