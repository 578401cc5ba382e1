#include "ops/eigen/eigh.h"

#include <ATen/ops/_linalg_eigh_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

#include "core/environment.h"
#include "kernels_eigen.gen.h"
#include "ops/eigen/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/eigen/plan.h"
#include "ops/linalg/structured.h"
#include "ops/eigen/tridiagonal.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr int64_t kExact = 16;  // to this size vectors of the shifted matrix are as exact as LAPACK's

// v + v e, of the first order. hv = h v.
at::Tensor corrected(const at::Tensor& v, const at::Tensor& hv, double most) {
  const int64_t n = v.size(1);
  const at::Tensor gram = empty_matrices(v, n, n), s = empty_matrices(v, n, n), e = empty_matrices(v, n, n);
  gemm("linalg_eigh", v.mH(), v, {}, 0, 1, gram);
  gemm("linalg_eigh", v.mH(), hv, {}, 0, 1, s);
  TensorArgs args;
  EighCorrectionParams p{};
  p.s = args.read(s);
  p.gram = args.read(gram);
  p.e = args.write(e);
  p.n = static_cast<uint32_t>(n);
  p.batches = static_cast<uint32_t>(v.size(0));
  p.most = static_cast<float>(most);
  launch(current(v), kernel::eigh_correction(number_dtype("linalg_eigh", v)), {}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(v.numel()), EighCorrectionParams::kLocal)));
  const at::Tensor better = empty_matrices(v, n, n);
  gemm("linalg_eigh", v, e, v, 1, 1, better);
  return better;
}

// v (3 - v^H v) / 2: nearly orthonormal columns as orthonormal ones to the square of their error (Newton and Schulz).
at::Tensor orthonormalized(const at::Tensor& v) {
  const int64_t n = v.size(1);
  const at::Tensor gram = empty_matrices(v, n, n), better = empty_matrices(v, n, n);
  gemm("linalg_eigh", v.mH(), v, {}, 0, 1, gram);
  gemm("linalg_eigh", v, gram, v, 1.5, -0.5, better);
  return better;
}

// The shift makes rotations stop at roundings of what is larger than the values. The first step turns vectors of near
// values, too, and leaves them orthonormal to the root of a rounding, the second to a rounding for each turn that it
// makes between near values, which can be many, so that the last step is for that alone.
at::Tensor refined(const at::Tensor& h, const at::Tensor& v, const at::Tensor& hv) {
  const double eps = c10::toRealValueType(v.scalar_type()) == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                          : std::numeric_limits<float>::epsilon();
  const at::Tensor once = corrected(v, hv, 0.5 * std::pow(eps, 0.25));
  gemm("linalg_eigh", h, once, {}, 0, 1, hv);
  return orthonormalized(corrected(once, hv, 0.5 * std::sqrt(eps)));
}

}  // namespace

void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper, bool compute_v) {
  infos.zero_();
  if (vectors.numel() == 0) return;
  const at::Tensor a = matrices_of(vectors);
  const int64_t n = a.size(1);
  const auto plan = tridiagonal_plan(profile_of(a), number_dtype("linalg_eigh", a), n, a.size(0), overrides());
  const JacobiStart start = start_from_hermitian(a, upper, !plan.has_value());
  const at::Tensor sorted = values.view({a.size(0), n});
  at::Tensor v;
  if (plan) {
    const Tridiagonal t = tridiagonalize(start.w, *plan);
    const Eigenpairs pairs = eigenpairs(t, *plan);
    if (!compute_v) {
      const at::Tensor is_finite = at::isfinite(start.h.abs().sum({1, 2})).unsqueeze(1);
      const at::Tensor found = at::where(is_finite, pairs.values, std::numeric_limits<double>::quiet_NaN());
      write_info(found, n, infos);
      return sort_columns(found, start.scale, {}, sorted, a, false);
    }
    v = transformed_back(t, pairs.vectors);
  } else {
    v = start.w;
    orthogonalize(v);
    normalize_columns(v);
  }
  const at::Tensor hv = empty_matrices(a, n, n);
  gemm("linalg_eigh", start.h, v, {}, 0, 1, hv);
  // Quotients are as exact as the square of the vectors' errors, and know nothing of the shift.
  const at::Tensor quotients = rayleigh_quotients(v, hv);
  write_info(quotients, n, infos);
  const at::Tensor exact = !compute_v ? at::Tensor() : n > kExact ? refined(start.h, v, hv) : v;
  sort_columns(quotients, start.scale, exact, sorted, a, false);
}

std::tuple<at::Tensor&, at::Tensor&> linalg_eigh_out(const at::Tensor& a, std::string_view uplo, bool compute_v,
                                                     at::Tensor& values, at::Tensor& vectors) {
  number_dtype("linalg_eigh", a);
  Structured<at::native::structured__linalg_eigh_out, 2> op({&values, &vectors});
  op.run(a, uplo, compute_v);
  return {values, vectors};
}

}  // namespace aule::ops
