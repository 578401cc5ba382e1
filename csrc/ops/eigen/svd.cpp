// Singular values of B = A, or A^H if A is wide: B = Q R, the columns of R^H V' .. rotate into V S, and B V = U S.
// Columns of singular values that vanish are noise, or 0; QR of the columns makes them orthonormal to the others, which
// it leaves as they are but for a sign, and completes U.
#include "ops/eigen/svd.h"

#include <ATen/ops/_linalg_svd_native.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/real.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "ops/eigen/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/structured.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr int64_t kNotFinite = -4;  // gesdd's info

// The first columns of `into` are orthonormal and nearly `columns`, which are nearly orthonormal or of small weight;
// the others complete them.
void complete(const at::Tensor& columns, at::Tensor into) {
  const int64_t batch = columns.size(0), n = columns.size(2);
  const at::Tensor tau = at::empty({batch, n}, columns.options());
  const at::Tensor first = into.narrow(2, 0, n);
  geqrf(columns, tau);
  first.copy_(columns);
  const at::Tensor sign = at::where(at::real(columns.diagonal(0, 1, 2)).lt(0), -1.0, 1.0);
  orgqr(into, tau);
  first.mul_(sign.unsqueeze(1));
}

}  // namespace

void svd(const at::Tensor& a, bool full_matrices, bool compute_uv, const std::optional<std::string_view>&,
         const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, const at::Tensor& info) {
  info.zero_();
  if (a.numel() == 0) return;
  const bool is_wide = a.size(-2) < a.size(-1);
  const int64_t m = std::max(a.size(-2), a.size(-1)), n = std::min(a.size(-2), a.size(-1)), batch = a.numel() / (m * n);
  const at::Tensor b = at::empty({batch, n, m}, a.options()).mT();
  b.copy_((is_wide ? a.mH() : a).reshape({batch, m, n}));
  const at::Tensor packed = at::empty({batch, n, m}, a.options()).mT().copy_(b);
  geqrf(packed, at::empty({batch, n}, a.options()));
  const JacobiStart start = start_from_triangle(packed);
  orthogonalize(start.w);
  const at::Tensor norms = normalize_columns(start.w), values = empty_reals(a, {batch, n});
  const at::Tensor sorted = compute_uv ? empty_matrices(b, n, n) : at::Tensor();
  sort_columns(norms, start.scale, compute_uv ? start.w : at::Tensor(), values, sorted, true);
  s.copy_(values.view(s.sizes()));
  write_info(values, kNotFinite, info);
  if (!compute_uv) return;

  const at::Tensor right = empty_matrices(b, n, n), image = empty_matrices(b, m, n);
  complete(sorted, right);
  gemm("linalg_svd", at::div(b, start.scale.view({batch, 1, 1})), right, {}, 0, 1, image);
  normalize_columns(image);
  const at::Tensor left = empty_matrices(b, m, full_matrices ? m : n);
  complete(image, left);
  u.copy_((is_wide ? right : left).reshape(u.sizes()));
  vh.copy_((is_wide ? left : right).mH().reshape(vh.sizes()));
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_svd_out(const at::Tensor& a, bool full_matrices,
                                                                 bool compute_uv,
                                                                 std::optional<std::string_view> driver, at::Tensor& u,
                                                                 at::Tensor& s, at::Tensor& vh) {
  number_dtype("linalg_svd", a);
  Structured<at::native::structured__linalg_svd_out, 3> op({&u, &s, &vh});
  op.run(a, full_matrices, compute_uv, driver);
  return {u, s, vh};
}

}  // namespace aule::ops
