#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/linalg/eigh.h"
#include "ops/linalg/svd.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &aule::ops::eigh)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &aule::ops::svd)
}  // namespace at::native

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_linalg_eigh.eigenvalues", ops::linalg_eigh_out));
  m.impl(ROW("_linalg_svd.U", ops::linalg_svd_out));
}

}  // namespace
}  // namespace aule::aten
