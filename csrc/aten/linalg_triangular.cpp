#include "aten/register.h"
#include "ops/linalg/triangular.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &aule::ops::triangular_solve)
}

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("linalg_solve_triangular", ops::linalg_solve_triangular));
  m.impl(ROW("linalg_solve_triangular.out", ops::linalg_solve_triangular_out));
  m.impl(ROW("triangular_solve.X", ops::triangular_solve_out));
}

}  // namespace
}  // namespace aule::aten
