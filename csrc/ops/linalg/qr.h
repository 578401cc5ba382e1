// Householder QR: the functions behind PyTorch's stubs of the same names (ATen/native/BatchLinearAlgebra.h). Matrices
// are batched and column-major: t.mT() is contiguous.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

namespace aule::ops {

// A = Q R in place, as LAPACK leaves it: R above, the reflections below the diagonal, their factors in tau.
void geqrf(const at::Tensor& a, const at::Tensor& tau);
// The first columns of Q = H0 H1 .. in place of the reflections.
at::Tensor& orgqr(at::Tensor& result, const at::Tensor& tau);
// other = op(Q) other, or other op(Q) if not `left`; op is the conjugate transpose if `transpose`.
void ormqr(const at::Tensor& reflections, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose);

std::tuple<at::Tensor, at::Tensor> geqrf_operator(const at::Tensor& self);
std::tuple<at::Tensor&, at::Tensor&> geqrf_out(const at::Tensor& self, at::Tensor& a, at::Tensor& tau);
at::Tensor linalg_householder_product(const at::Tensor& input, const at::Tensor& tau);
at::Tensor& linalg_householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out);
at::Tensor ormqr_operator(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left,
                          bool transpose);
at::Tensor& ormqr_out(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose,
                      at::Tensor& out);
std::tuple<at::Tensor&, at::Tensor&> linalg_qr_out(const at::Tensor& a, std::string_view mode, at::Tensor& q,
                                                   at::Tensor& r);

}  // namespace aule::ops
