// Cholesky factors, and what is solved with them.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

// PyTorch's stub: the triangle of each matrix of `a` becomes its factor, in place. `info` is set.
void cholesky_in_place(const at::Tensor& a, const at::Tensor& info, bool upper);

#if __has_include(<ATen/ops/cholesky_native.h>)  // torch 2.15 composes it of linalg_cholesky_ex
#define AULE_HAS_CHOLESKY 1
at::Tensor cholesky(const at::Tensor& self, bool upper);
at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out);
#endif
std::tuple<at::Tensor&, at::Tensor&> linalg_cholesky_ex_out(const at::Tensor& self, bool upper, bool check_errors,
                                                            at::Tensor& l, at::Tensor& info);
at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor& a, bool upper);
at::Tensor cholesky_inverse(const at::Tensor& self, bool upper);
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out);

}  // namespace aule::ops
