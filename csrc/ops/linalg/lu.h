// LU factors with partial pivoting, and what is solved with them.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/native/TransposeType.h>
#include <ATen/TensorIterator.h>

#include <tuple>

namespace aule::ops {

// PyTorch's stubs. The first: each matrix of `a` becomes its factors, in place; all others are set.
void lu_factor(const at::Tensor& a, const at::Tensor& pivots, const at::Tensor& info, bool pivot);
void lu_solve(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, at::native::TransposeType transpose);
void unpack_pivots(at::TensorIterator& iter, int64_t pivots, int64_t rows);

using Two = std::tuple<at::Tensor&, at::Tensor&>;
using Three = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;
using Four = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>;
Three linalg_lu_factor_ex_out(const at::Tensor& a, bool pivot, bool check_errors, at::Tensor& lu, at::Tensor& pivots,
                              at::Tensor& info);
Three linalg_lu_out(const at::Tensor& a, bool pivot, at::Tensor& p, at::Tensor& l, at::Tensor& u);
Three lu_unpack_out(const at::Tensor& lu, const at::Tensor& pivots, bool unpack_data, bool unpack_pivots, at::Tensor& p,
                    at::Tensor& l, at::Tensor& u);
at::Tensor& linalg_lu_solve_out(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, bool left,
                                bool adjoint, at::Tensor& out);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linalg_solve_ex(const at::Tensor& a, const at::Tensor& b,
                                                                           bool left, bool check_errors);
Four linalg_solve_ex_out(const at::Tensor& a, const at::Tensor& b, bool left, bool check_errors, at::Tensor& result,
                         at::Tensor& lu, at::Tensor& pivots, at::Tensor& info);
Two linalg_inv_ex_out(const at::Tensor& a, bool check_errors, at::Tensor& inverse, at::Tensor& info);
Three linalg_det_out(const at::Tensor& a, at::Tensor& result, at::Tensor& lu, at::Tensor& pivots);
Four linalg_slogdet_out(const at::Tensor& a, at::Tensor& sign, at::Tensor& logabsdet, at::Tensor& lu,
                        at::Tensor& pivots);

}  // namespace aule::ops
