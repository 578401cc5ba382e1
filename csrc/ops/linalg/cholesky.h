// Cholesky factors, and what is solved with them.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

// PyTorch's stub: the triangle of each matrix of `a` becomes its factor, in place. `info` is set.
void cholesky_in_place(const at::Tensor& a, const at::Tensor& info, bool upper);

at::Tensor cholesky(const at::Tensor& self, bool upper);
at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out);
std::tuple<at::Tensor&, at::Tensor&> linalg_cholesky_ex_out(const at::Tensor& self, bool upper, bool check_errors,
                                                            at::Tensor& l, at::Tensor& info);
at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor& a, bool upper);
at::Tensor cholesky_inverse(const at::Tensor& self, bool upper);
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out);

}  // namespace aule::ops
