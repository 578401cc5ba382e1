// Rotary position embedding: torch.ops.aule.rotary_embedding (shaders/attention/rotary.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

// x: (batch, heads, tokens, size), or without the first ones; cos and sin: (rows, half) with 2 half <= size; positions:
// (tokens) or (batch, tokens), rows of the tables.
at::Tensor rotary_embedding(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const std::optional<at::Tensor>& positions, bool interleaved, bool inverse);
void rotary_embedding_(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       const std::optional<at::Tensor>& positions, bool interleaved, bool inverse);

}  // namespace aule::ops
