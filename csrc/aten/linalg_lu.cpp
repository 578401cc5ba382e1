#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/linalg/lu.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &aule::ops::lu_factor)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &aule::ops::lu_solve)
REGISTER_PRIVATEUSE1_DISPATCH(unpack_pivots_stub, &aule::ops::unpack_pivots)
}  // namespace at::native

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
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
}

}  // namespace
}  // namespace aule::aten
