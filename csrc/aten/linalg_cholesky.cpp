#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/linalg/cholesky.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &aule::ops::cholesky_in_place)
}

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#ifdef AULE_HAS_CHOLESKY
  m.impl(ROW("cholesky", ops::cholesky));
  m.impl(ROW("cholesky.out", ops::cholesky_out));
#endif
  m.impl(ROW("linalg_cholesky_ex.L", ops::linalg_cholesky_ex_out));
  m.impl(ROW("_cholesky_solve_helper", ops::cholesky_solve_helper));
  m.impl(ROW("cholesky_inverse", ops::cholesky_inverse));
  m.impl(ROW("cholesky_inverse.out", ops::cholesky_inverse_out));
}

}  // namespace
}  // namespace aule::aten
