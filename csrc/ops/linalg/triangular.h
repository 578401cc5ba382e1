// Systems with triangular matrices.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/TransposeType.h>

#include <tuple>

namespace aule::ops {

// A triangle of each matrix of [batch, n, n], whose conjugate bit is honoured.
struct Triangle {
  at::Tensor matrices;
  bool is_upper = false, is_unit = false;

  Triangle transposed() const { return {matrices.mT(), !is_upper, is_unit}; }
  Triangle adjoint() const { return {matrices.mT().conj(), !is_upper, is_unit}; }
};

// x = t^-1 x in place, [batch, n, columns] of any strides, without a conjugate bit.
void solve_left(const Triangle& t, const at::Tensor& x);

// PyTorch's stub: b = op(a)^-1 b, or b op(a)^-1, in place.
void triangular_solve(const at::Tensor& a, const at::Tensor& b, bool left, bool upper,
                      at::native::TransposeType transpose, bool unitriangular);

at::Tensor linalg_solve_triangular(const at::Tensor& self, const at::Tensor& b, bool upper, bool left,
                                   bool unitriangular);
at::Tensor& linalg_solve_triangular_out(const at::Tensor& self, const at::Tensor& b, bool upper, bool left,
                                        bool unitriangular, at::Tensor& out);
std::tuple<at::Tensor&, at::Tensor&> triangular_solve_out(const at::Tensor& self, const at::Tensor& a, bool upper,
                                                          bool transpose, bool unitriangular, at::Tensor& x,
                                                          at::Tensor& m);

}  // namespace aule::ops
