// PyTorch's operators over the stubs of qr.cpp: what the device cannot compute is declined before anything is made.
#include <ATen/ops/empty.h>
#include <ATen/ops/geqrf_native.h>
#include <ATen/ops/linalg_householder_product_native.h>
#include <ATen/ops/linalg_qr_native.h>
#include <ATen/ops/ormqr_native.h>

#include "ops/linalg/matrices.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/structured.h"

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor> geqrf_operator(const at::Tensor& self) {
  number_dtype("geqrf", self);
  return at::native::geqrf(self);
}
std::tuple<at::Tensor&, at::Tensor&> geqrf_out(const at::Tensor& self, at::Tensor& a, at::Tensor& tau) {
  number_dtype("geqrf", self);
  return at::native::geqrf_out(self, a, tau);
}
at::Tensor linalg_householder_product(const at::Tensor& input, const at::Tensor& tau) {
  number_dtype("linalg_householder_product", input);
  return at::native::linalg_householder_product(input, tau);
}
at::Tensor& linalg_householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out) {
  number_dtype("linalg_householder_product", input);
  return at::native::linalg_householder_product_out(input, tau, out);
}
at::Tensor ormqr_operator(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left,
                          bool transpose) {
  number_dtype("ormqr", self);
  return at::native::ormqr(self, tau, other, left, transpose);
}
at::Tensor& ormqr_out(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose,
                      at::Tensor& out) {
  number_dtype("ormqr", self);
  return at::native::ormqr_out(self, tau, other, left, transpose, out);
}
std::tuple<at::Tensor&, at::Tensor&> linalg_qr_out(const at::Tensor& a, std::string_view mode, at::Tensor& q,
                                                   at::Tensor& r) {
  number_dtype("linalg_qr", a);
  Structured<at::native::structured_linalg_qr_out, 2> op({&q, &r});
  op.run(a, mode);
  return {q, r};
}

}  // namespace aule::ops
