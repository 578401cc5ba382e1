// LDL factors of symmetric and Hermitian matrices, which need not be definite, and solutions with them.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

// PyTorch's stubs, of lower triangles: each matrix of `ld` becomes its factors, `b` the solution, in place.
void ldl_factor(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& info, bool upper, bool hermitian);
void ldl_solve(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& b, bool upper, bool hermitian);

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_ldl_factor_ex_out(const at::Tensor& self, bool hermitian,
                                                                           bool check_errors, at::Tensor& ld,
                                                                           at::Tensor& pivots, at::Tensor& info);
at::Tensor& linalg_ldl_solve_out(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& b, bool hermitian,
                                 at::Tensor& out);

}  // namespace aule::ops
