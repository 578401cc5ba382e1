#include <ATen/native/BatchLinearAlgebra.h>

#include "aten/register.h"
#include "ops/linalg/qr.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &aule::ops::geqrf)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &aule::ops::orgqr)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &aule::ops::ormqr)
}  // namespace at::native

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("geqrf", ops::geqrf_operator));
  m.impl(ROW("geqrf.a", ops::geqrf_out));
  m.impl(ROW("linalg_householder_product", ops::linalg_householder_product));
  m.impl(ROW("linalg_householder_product.out", ops::linalg_householder_product_out));
  m.impl(ROW("ormqr", ops::ormqr_operator));
  m.impl(ROW("ormqr.out", ops::ormqr_out));
  m.impl(ROW("linalg_qr.out", ops::linalg_qr_out));
}

}  // namespace
}  // namespace aule::aten
