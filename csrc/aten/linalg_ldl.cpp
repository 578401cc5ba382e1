#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/linalg/ldl.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(ldl_factor_stub, &aule::ops::ldl_factor)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_solve_stub, &aule::ops::ldl_solve)
}  // namespace at::native

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("linalg_ldl_factor_ex.out", ops::linalg_ldl_factor_ex_out));
  m.impl(ROW("linalg_ldl_solve.out", ops::linalg_ldl_solve_out));
}

}  // namespace
}  // namespace aule::aten
