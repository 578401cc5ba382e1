#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/eigen/eig.h"
#include "ops/eigen/eigh.h"
#include "ops/eigen/lstsq.h"
#include "ops/eigen/svd.h"
#include "ops/linalg/cholesky.h"
#include "ops/linalg/ldl.h"
#include "ops/linalg/lu.h"
#include "ops/linalg/matrix_exp.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/triangular.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &aule::ops::cholesky_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_factor_stub, &aule::ops::ldl_factor)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_solve_stub, &aule::ops::ldl_solve)
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &aule::ops::lu_factor)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &aule::ops::lu_solve)
REGISTER_PRIVATEUSE1_DISPATCH(unpack_pivots_stub, &aule::ops::unpack_pivots)
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &aule::ops::geqrf)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &aule::ops::orgqr)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &aule::ops::ormqr)
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &aule::ops::eigh)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &aule::ops::svd)
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &aule::ops::triangular_solve)
}  // namespace at::native

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("linalg_eig", ops::linalg_eig));
  m.impl(ROW("linalg_eig.out", ops::linalg_eig_out));
  m.impl(ROW("_linalg_eigvals", ops::linalg_eigvals));
  m.impl(ROW("linalg_eigvals.out", ops::linalg_eigvals_out));
  m.impl(ROW("linalg_lstsq", ops::linalg_lstsq));
  m.impl(ROW("linalg_lstsq.out", ops::linalg_lstsq_out));
  m.impl(ROW("linalg_matrix_exp", ops::linalg_matrix_exp));
  m.impl(ROW("linalg_matrix_exp.out", ops::linalg_matrix_exp_out));
  m.impl(ROW("_compute_linear_combination", ops::compute_linear_combination));
  m.impl(ROW("_compute_linear_combination.out", ops::compute_linear_combination_out));

#ifdef AULE_HAS_CHOLESKY
  m.impl(ROW("cholesky", ops::cholesky));
  m.impl(ROW("cholesky.out", ops::cholesky_out));
#endif
  m.impl(ROW("linalg_cholesky_ex.L", ops::linalg_cholesky_ex_out));
  m.impl(ROW("_cholesky_solve_helper", ops::cholesky_solve_helper));
  m.impl(ROW("cholesky_inverse", ops::cholesky_inverse));
  m.impl(ROW("cholesky_inverse.out", ops::cholesky_inverse_out));

  m.impl(ROW("linalg_ldl_factor_ex.out", ops::linalg_ldl_factor_ex_out));
  m.impl(ROW("linalg_ldl_solve.out", ops::linalg_ldl_solve_out));

  m.impl(ROW("linalg_lu_factor_ex.out", ops::linalg_lu_factor_ex_out));
  m.impl(ROW("linalg_lu.out", ops::linalg_lu_out));
  m.impl(ROW("lu_unpack.out", ops::lu_unpack_out));
  m.impl(ROW("linalg_lu_solve.out", ops::linalg_lu_solve_out));
  // PyTorch's own form makes its results first, each on the device of one of the arguments, and fails with a text about
  // its insides if those are two.
  m.impl(ROW("_linalg_solve_ex", ops::linalg_solve_ex));
  m.impl(ROW("_linalg_solve_ex.result", ops::linalg_solve_ex_out));
  m.impl(ROW("linalg_inv_ex.inverse", ops::linalg_inv_ex_out));
  m.impl(ROW("_linalg_det.result", ops::linalg_det_out));
  m.impl(ROW("_linalg_slogdet.sign", ops::linalg_slogdet_out));

  m.impl(ROW("geqrf", ops::geqrf_operator));
  m.impl(ROW("geqrf.a", ops::geqrf_out));
  m.impl(ROW("linalg_householder_product", ops::linalg_householder_product));
  m.impl(ROW("linalg_householder_product.out", ops::linalg_householder_product_out));
  m.impl(ROW("ormqr", ops::ormqr_operator));
  m.impl(ROW("ormqr.out", ops::ormqr_out));
  m.impl(ROW("linalg_qr.out", ops::linalg_qr_out));

  m.impl(ROW("_linalg_eigh.eigenvalues", ops::linalg_eigh_out));
  m.impl(ROW("_linalg_svd.U", ops::linalg_svd_out));

  m.impl(ROW("linalg_solve_triangular", ops::linalg_solve_triangular));
  m.impl(ROW("linalg_solve_triangular.out", ops::linalg_solve_triangular_out));
  m.impl(ROW("triangular_solve.X", ops::triangular_solve_out));
}

}  // namespace
}  // namespace aule::aten
