// PyTorch's operators over the stubs of lu.cpp: what the device cannot compute is declined before anything is made.
#include <ATen/ops/_linalg_det_native.h>
#include <ATen/ops/_linalg_slogdet_native.h>
#include <ATen/ops/_linalg_solve_ex_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_inv_ex_native.h>
#include <ATen/ops/linalg_lu_factor_ex_native.h>
#include <ATen/ops/linalg_lu_native.h>
#include <ATen/ops/linalg_lu_solve_native.h>
#include <ATen/ops/lu_unpack_native.h>

#include "ops/linalg/lu.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/structured.h"

namespace aule::ops {

Three linalg_lu_factor_ex_out(const at::Tensor& a, bool pivot, bool check_errors, at::Tensor& lu, at::Tensor& pivots,
                              at::Tensor& info) {
  number_dtype("linalg_lu_factor_ex", a);
  Structured<at::native::structured_linalg_lu_factor_ex_out, 3> op({&lu, &pivots, &info});
  op.run(a, pivot, check_errors);
  return {lu, pivots, info};
}
Three linalg_lu_out(const at::Tensor& a, bool pivot, at::Tensor& p, at::Tensor& l, at::Tensor& u) {
  number_dtype("linalg_lu", a);
  Structured<at::native::structured_linalg_lu_out, 3> op({&p, &l, &u});
  op.run(a, pivot);
  return {p, l, u};
}
Three lu_unpack_out(const at::Tensor& lu, const at::Tensor& pivots, bool unpack_data, bool unpack_pivots, at::Tensor& p,
                    at::Tensor& l, at::Tensor& u) {
  number_dtype("lu_unpack", lu);
  Structured<at::native::structured_lu_unpack_out, 3> op({&p, &l, &u});
  op.run(lu, pivots, unpack_data, unpack_pivots);
  return {p, l, u};
}
at::Tensor& linalg_lu_solve_out(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, bool left,
                                bool adjoint, at::Tensor& out) {
  number_dtype("linalg_lu_solve", lu);
  Structured<at::native::structured_linalg_lu_solve_out, 1> op({&out});
  op.run(lu, pivots, b, left, adjoint);
  return out;
}
Four linalg_solve_ex_out(const at::Tensor& a, const at::Tensor& b, bool left, bool check_errors, at::Tensor& result,
                         at::Tensor& lu, at::Tensor& pivots, at::Tensor& info) {
  number_dtype("_linalg_solve_ex", a);
  Structured<at::native::structured__linalg_solve_ex_out, 4> op({&result, &lu, &pivots, &info});
  op.run(a, b, left, check_errors);
  return {result, lu, pivots, info};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linalg_solve_ex(const at::Tensor& a, const at::Tensor& b,
                                                                           bool left, bool check_errors) {
  number_dtype("_linalg_solve_ex", a);
  at::Tensor result = at::empty({0}, b.options()), lu = at::empty({0}, a.options());
  at::Tensor pivots = at::empty({0}, a.options().dtype(at::kInt)), info = at::empty({0}, a.options().dtype(at::kInt));
  linalg_solve_ex_out(a, b, left, check_errors, result, lu, pivots, info);
  return {result, lu, pivots, info};
}
Two linalg_inv_ex_out(const at::Tensor& a, bool check_errors, at::Tensor& inverse, at::Tensor& info) {
  number_dtype("linalg_inv_ex", a);
  Structured<at::native::structured_linalg_inv_ex_out, 2> op({&inverse, &info});
  op.run(a, check_errors);
  return {inverse, info};
}
Three linalg_det_out(const at::Tensor& a, at::Tensor& result, at::Tensor& lu, at::Tensor& pivots) {
  number_dtype("_linalg_det", a);
  Structured<at::native::structured__linalg_det_out, 3> op({&result, &lu, &pivots});
  op.run(a);
  return {result, lu, pivots};
}
Four linalg_slogdet_out(const at::Tensor& a, at::Tensor& sign, at::Tensor& logabsdet, at::Tensor& lu,
                        at::Tensor& pivots) {
  number_dtype("_linalg_slogdet", a);
  Structured<at::native::structured__linalg_slogdet_out, 4> op({&sign, &logabsdet, &lu, &pivots});
  op.run(a);
  return {sign, logabsdet, lu, pivots};
}

}  // namespace aule::ops
