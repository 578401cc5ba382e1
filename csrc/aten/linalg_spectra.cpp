#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/_linalg_eigh_native.h>
#include <ATen/ops/_linalg_svd_native.h>
#include <ATen/ops/empty.h>

#include "aten/register.h"
#include "aten/structured.h"
#include "ops/linalg/eigh.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/svd.h"

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &aule::ops::eigh)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &aule::ops::svd)
}  // namespace at::native

namespace aule::aten {
namespace {

std::tuple<at::Tensor, at::Tensor> linalg_eigh(const at::Tensor& a, c10::string_view uplo, bool compute_v) {
  ops::check_factored("linalg_eigh", a);
  return run_structured<at::native::structured__linalg_eigh_out, 2>(a, uplo, compute_v);
}
std::tuple<at::Tensor&, at::Tensor&> linalg_eigh_out(const at::Tensor& a, c10::string_view uplo, bool compute_v,
                                                     at::Tensor& values, at::Tensor& vectors) {
  const auto [w, v] = linalg_eigh(a, uplo, compute_v);
  return {hand_over_strided(w, values), hand_over_strided(v, vectors)};
}

using Driver = std::optional<c10::string_view>;
std::tuple<at::Tensor, at::Tensor, at::Tensor> linalg_svd(const at::Tensor& a, bool full_matrices, bool compute_uv,
                                                          Driver driver) {
  ops::check_factored("linalg_svd", a);
  return run_structured<at::native::structured__linalg_svd_out, 3>(a, full_matrices, compute_uv, driver);
}
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_svd_out(const at::Tensor& a, bool full_matrices,
                                                                 bool compute_uv, Driver driver, at::Tensor& u,
                                                                 at::Tensor& s, at::Tensor& vh) {
  const auto [u_result, s_result, vh_result] = linalg_svd(a, full_matrices, compute_uv, driver);
  return {hand_over_strided(u_result, u), hand_over_strided(s_result, s), hand_over_strided(vh_result, vh)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_linalg_eigh", linalg_eigh));
  m.impl(ROW("_linalg_eigh.eigenvalues", linalg_eigh_out));
  m.impl(ROW("_linalg_svd", linalg_svd));
  m.impl(ROW("_linalg_svd.U", linalg_svd_out));
}

}  // namespace
}  // namespace aule::aten
