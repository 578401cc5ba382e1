// Products with quantized weights, which stay packed (formats: ops/quantized/format.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace aule::ops {

// `scales` is empty for formats that have theirs in the blocks. Else they are those of groups of `group` values,
// counted over all rows: [float32 numbers], or [codes of a byte, table of 256 numbers, scales of 256 codes each, a
// number that is added].

// weight [n, packed bytes], uint8 -> [n, k] of dtype.
at::Tensor quantized_dequantize(const at::Tensor& weight, std::string_view format, int64_t k, at::ScalarType dtype,
                                at::TensorList scales, at::IntArrayRef group);
// The rows that indices [...] name -> [..., k].
at::Tensor quantized_rows(const at::Tensor& weight, const at::Tensor& indices, std::string_view format, int64_t k,
                          at::ScalarType dtype, at::TensorList scales, at::IntArrayRef group);
// x [..., k] @ weight [n, k].T + bias [n] -> [..., n]
at::Tensor quantized_linear(const at::Tensor& x, const at::Tensor& weight, std::string_view format,
                            const std::optional<at::Tensor>& bias, at::TensorList scales, at::IntArrayRef group);
// The same with what surrounds it: norm_linear_act (ops/decoding/norm_linear.h).
at::Tensor quantized_norm_linear_act(const at::Tensor& x, const at::Tensor& weight, std::string_view format,
                                     const std::optional<at::Tensor>& bias, at::TensorList scales,
                                     at::IntArrayRef group, const std::optional<at::Tensor>& norm, double eps,
                                     std::string_view activation, const std::optional<at::Tensor>& residual);
// x [..., n] @ weight [n, k] -> [..., k]: the gradient of quantized_linear.
at::Tensor quantized_matmul(const at::Tensor& x, const at::Tensor& weight, std::string_view format, int64_t k,
                            at::TensorList scales, at::IntArrayRef group);
// x [m, k], weight [experts, n, packed bytes], ids [m, slots] -> [m, slots, n]
at::Tensor quantized_linear_by_expert(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ids,
                                      std::string_view format, at::TensorList scales, at::IntArrayRef group);

}  // namespace aule::ops
