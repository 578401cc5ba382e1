#include "ops/linalg/qr.h"

#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/geqrf_native.h>
#include <ATen/ops/linalg_householder_product_native.h>
#include <ATen/ops/linalg_qr_native.h>
#include <ATen/ops/ormqr_native.h>

#include "aten/register.h"
#include "aten/structured.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &aule::ops::geqrf)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &aule::ops::orgqr)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &aule::ops::ormqr)
}  // namespace at::native

namespace aule::aten {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair geqrf(const at::Tensor& self) {
  ops::check_factored("geqrf", self);
  return at::native::geqrf(self);
}
std::tuple<at::Tensor&, at::Tensor&> geqrf_out(const at::Tensor& self, at::Tensor& a, at::Tensor& tau) {
  ops::check_factored("geqrf", self);
  return at::native::geqrf_out(self, a, tau);
}
at::Tensor householder_product(const at::Tensor& input, const at::Tensor& tau) {
  ops::check_factored("linalg_householder_product", input);
  return at::native::linalg_householder_product(input, tau);
}
at::Tensor& householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out) {
  ops::check_factored("linalg_householder_product", input);
  return at::native::linalg_householder_product_out(input, tau, out);
}
at::Tensor ormqr(const at::Tensor& self, const at::Tensor& input2, const at::Tensor& input3, bool left,
                 bool transpose) {
  ops::check_factored("ormqr", self);
  return at::native::ormqr(self, input2, input3, left, transpose);
}
at::Tensor& ormqr_out(const at::Tensor& self, const at::Tensor& input2, const at::Tensor& input3, bool left,
                      bool transpose, at::Tensor& out) {
  ops::check_factored("ormqr", self);
  return at::native::ormqr_out(self, input2, input3, left, transpose, out);
}
Pair linalg_qr(const at::Tensor& a, c10::string_view mode) {
  ops::check_factored("linalg_qr", a);
  return run_structured<at::native::structured_linalg_qr_out, 2>(a, mode);
}
std::tuple<at::Tensor&, at::Tensor&> linalg_qr_out(const at::Tensor& a, c10::string_view mode, at::Tensor& q,
                                                   at::Tensor& r) {
  const auto [q_result, r_result] = linalg_qr(a, mode);
  return {hand_over_strided(q_result, q), hand_over_strided(r_result, r)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("geqrf", geqrf));
  m.impl(ROW("geqrf.a", geqrf_out));
  m.impl(ROW("linalg_householder_product", householder_product));
  m.impl(ROW("linalg_householder_product.out", householder_product_out));
  m.impl(ROW("ormqr", ormqr));
  m.impl(ROW("ormqr.out", ormqr_out));
  m.impl(ROW("linalg_qr", linalg_qr));
  m.impl(ROW("linalg_qr.out", linalg_qr_out));
}

}  // namespace
}  // namespace aule::aten
