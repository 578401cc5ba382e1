// Products of a matrix with a diagonal, and row sums of linear layers, in one pass over memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;

// diag(a) b: a [n], b [n, m].
at::Tensor diagonal_matmul(const at::Tensor& a, const at::Tensor& b);
// (da, db)
std::tuple<at::Tensor, at::Tensor> diagonal_matmul_backward(const at::Tensor& grad, const at::Tensor& a,
                                                            const at::Tensor& b);
// For devices without kernels of ours.
at::Tensor diagonal_matmul_composed(const at::Tensor& a, const at::Tensor& b);
std::tuple<at::Tensor, at::Tensor> diagonal_matmul_backward_composed(const at::Tensor& grad, const at::Tensor& a,
                                                                     const at::Tensor& b);

// linear(x, weight, bias).sum(-1) as x . (column sums of weight) + sum(bias): x [..., in], weight [out, in].
at::Tensor fused_linear_rowsum(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias);
// (dx, dweight, dbias); dbias has no elements unless `has_bias`.
std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_linear_rowsum_backward(const at::Tensor& grad, const at::Tensor& x,
                                                                            const at::Tensor& weight, bool has_bias);
at::Tensor fused_linear_rowsum_composed(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias);
std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_linear_rowsum_backward_composed(const at::Tensor& grad,
                                                                                     const at::Tensor& x,
                                                                                     const at::Tensor& weight,
                                                                                     bool has_bias);

}  // namespace aule::ops
