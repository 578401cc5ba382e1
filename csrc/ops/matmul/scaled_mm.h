// Products of float8 matrices with scales.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <optional>

namespace aule::ops {

// (a * scale_a) @ (b * scale_b) + bias. A scale is one number, or one for each row of a and column of b, or one for
// each 128 numbers along k of a row or column; or for each 128 x 128 numbers.
at::Tensor& scaled_mm_out(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& scale_result, std::optional<c10::ScalarType> out_dtype,
                          bool use_fast_accum, at::Tensor& out);
at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                     const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                     std::optional<c10::ScalarType> out_dtype, bool use_fast_accum);

// As the dispatcher hands lists of tensors to this operator.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
using Scales = at::TensorList;
#else
using Scales = const at::ITensorListRef&;
#endif

// Recipes: one scale, or one for each row and column.
at::Tensor& scaled_mm_v2_out(const at::Tensor& a, const at::Tensor& b, Scales scale_a, at::IntArrayRef recipe_a,
                             at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b,
                             at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& bias,
                             std::optional<c10::ScalarType> out_dtype, at::IntArrayRef contraction_dim,
                             bool use_fast_accum, at::Tensor& out);
at::Tensor scaled_mm_v2(const at::Tensor& a, const at::Tensor& b, Scales scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                        const std::optional<at::Tensor>& bias, std::optional<c10::ScalarType> out_dtype,
                        at::IntArrayRef contraction_dim, bool use_fast_accum);

}  // namespace aule::ops
