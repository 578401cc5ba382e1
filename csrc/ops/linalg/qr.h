// Householder QR: the functions behind PyTorch's stubs of the same names (ATen/native/BatchLinearAlgebra.h). Matrices
// are batched and column-major: t.mT() is contiguous.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Declines dtypes other than float32, float64 and their complex ones, and float64 where the device has none.
void check_factored(const char* op, const at::Tensor& t);
// [..., m, n], column-major, as [batch, m, n] of the same memory.
at::Tensor as_one_batch(const at::Tensor& t);

// A = Q R in place, as LAPACK leaves it: R above, the reflections below the diagonal, their factors in tau.
void geqrf(const at::Tensor& a, const at::Tensor& tau);
// The first columns of Q = H0 H1 .. in place of the reflections.
at::Tensor& orgqr(at::Tensor& result, const at::Tensor& tau);
// other = op(Q) other, or other op(Q) if not `left`; op is the conjugate transpose if `transpose`.
void ormqr(const at::Tensor& reflections, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose);

}  // namespace aule::ops
