// gels: A = Q R, x = R^-1 Q^H b; of a wide A, A^H = Q R, x = Q R^-H b. The other drivers differ in speed on a CPU
// alone: A = U S V^H, x = V S^+ U^H b, without the singular values up to rcond times the largest.
#include "ops/eigen/lstsq.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "ops/eigen/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/triangular.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

constexpr const char* kLstsq = "torch.linalg.lstsq";

void check_arguments(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() >= 2, kLstsq, ": input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, kLstsq, ": other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), kLstsq,
              ": Expected input and other to have the same dtype, but got input's dtype ", a.scalar_type(),
              " and other's dtype ", b.scalar_type());
  TORCH_CHECK(a.dim() == b.dim() || a.dim() == b.dim() + 1, kLstsq,
              ": input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1");
}

enum class Driver { gels, gelsy, gelsd, gelss };
Driver driver_of(std::optional<std::string_view> name) {
  const std::string_view driver = name.value_or("gelsy");
  if (driver == "gels") return Driver::gels;
  if (driver == "gelsy") return Driver::gelsy;
  if (driver == "gelsd") return Driver::gelsd;
  TORCH_CHECK(driver == "gelss", kLstsq, ": parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  return Driver::gelss;
}

at::Tensor empty_columns(const at::Tensor& like, std::vector<int64_t> sizes) {
  std::swap(sizes.end()[-1], sizes.end()[-2]);
  return at::empty(sizes, like.options()).mT();
}

// The first index on the diagonal of R, from 1, that is 0 exactly, is an error; but zeros have the solution 0.
void check_full_rank(const at::Tensor& a, const at::Tensor& r, const at::Tensor& x) {
  const int64_t n = r.size(-1);
  const at::Tensor is_zero = r.diagonal(0, 1, 2).eq(0);
  const at::Tensor first = is_zero.to(at::kInt).argmax(1);
  const at::Tensor info = at::where(is_zero.any(1), first + 1, 0).to(at::kInt);
  if (n == 0 || !info.ne(0).any().item().toBool()) return;
  const at::Tensor zeros = a.eq(0).flatten(1).all(1);
  info.masked_fill_(zeros, 0);
  at::_linalg_check_errors(info, kLstsq, a.size(0) == 1);
  x.masked_fill_(zeros.view({-1, 1, 1}), 0);
}

// x, [batch, max(m, n), columns] has b in its first rows, and gets the solution and then what is left of b.
void solve_by_qr(const at::Tensor& a, const at::Tensor& x) {
  const int64_t batch = a.size(0), m = a.size(1), n = a.size(2), k = std::min(m, n);
  if (k == 0 || batch == 0) return;
  const at::Tensor packed = empty_columns(a, {batch, std::max(m, n), k}), tau = at::empty({batch, k}, a.options());
  packed.copy_(m >= n ? a : a.mH());
  geqrf(packed, tau);
  const at::Tensor r = packed.narrow(1, 0, k), first = x.narrow(1, 0, k);
  const Triangle triangle{r, true, false};
  if (m >= n) {
    ormqr(packed, tau, x, true, true);
    solve_left(triangle, first);
  } else {
    solve_left(triangle.adjoint(), first);
    ormqr(packed, tau, x, true, false);
  }
  check_full_rank(a, r, x);
}

struct RankAndValues {
  at::Tensor rank, values;
};
RankAndValues solve_by_svd(const at::Tensor& a, const at::Tensor& b, double rcond, const at::Tensor& x) {
  const auto [u, s, vh] = at::_linalg_svd(a, false);
  if (s.size(-1) == 0) return {at::zeros(s.sizes().slice(0, s.dim() - 1), s.options().dtype(at::kLong)), s};
  const at::Tensor is_kept = s > s.narrow(-1, 0, 1) * rcond;
  const at::Tensor inverse = at::where(is_kept, s.reciprocal(), 0).unsqueeze(-1);
  x.copy_(at::matmul(vh.mH(), at::matmul(u.mH(), b) * inverse));
  return {is_kept.sum(-1), s};
}

// Squares of the columns' 2-norms.
at::Tensor squares_of(const at::Tensor& columns) { return at::linalg_vector_norm(columns, 2, -2).square(); }

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linalg_lstsq(const at::Tensor& a, const at::Tensor& b,
                                                                        std::optional<double> rcond,
                                                                        std::optional<std::string_view> driver_name) {
  number_dtype("linalg_lstsq", a);
  check_arguments(a, b);
  const bool is_vector = at::native::linalg_solve_is_vector_rhs(a, b);
  const at::Tensor columns = is_vector ? b.unsqueeze(-1) : b;
  const int64_t m = a.size(-2), n = a.size(-1), k = columns.size(-1);
  TORCH_CHECK(m == columns.size(-2), kLstsq, ": input.size(-2) should match other.size(", is_vector ? "-1)" : "-2)");
  const Driver driver = driver_of(driver_name);
  const double eps = at::native::_get_epsilon(c10::toRealValueType(a.scalar_type()));
  double cutoff = rcond.value_or(eps * static_cast<double>(std::max(m, n)));
  if (cutoff < 0) cutoff = eps;  // LAPACK's meaning

  std::vector<int64_t> batch = at::native::broadcast_batch_size(a, columns, a.dim() - 2);
  const auto with = [&batch](int64_t rows, int64_t count) {
    std::vector<int64_t> sizes = batch;
    sizes.insert(sizes.end(), {rows, count});
    return sizes;
  };
  const at::Tensor expanded = columns.expand(with(m, k));
  const at::Tensor x = empty_columns(a, with(std::max(m, n), k)), solution = x.narrow(-2, 0, n);
  at::Tensor residuals = empty_reals(a, {0}), rank = at::empty({0}, a.options().dtype(at::kLong)),
             values = empty_reals(a, {0});
  if (driver == Driver::gels) {
    x.zero_();
    x.narrow(-2, 0, m).copy_(expanded);
    solve_by_qr(matrices_to_read(a.expand(with(m, n))), matrices_of(x));
    if (m > n) residuals = squares_of(x.narrow(-2, n, m - n));
  } else {
    if (std::min(m, n) == 0) solution.zero_();
    const RankAndValues spectrum = solve_by_svd(a, columns, cutoff, solution);
    rank = spectrum.rank;
    if (driver != Driver::gelsy) {
      values = spectrum.values;
      const bool has_residuals = m > n && rank.eq(n).all().item().toBool();
      if (has_residuals) residuals = squares_of(expanded - at::matmul(a, solution));
    }
  }
  return {is_vector ? solution.squeeze(-1) : solution, residuals, rank, values};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> linalg_lstsq_out(
    const at::Tensor& a, const at::Tensor& b, std::optional<double> rcond, std::optional<std::string_view> driver,
    at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values) {
  const at::ScalarType real = c10::toRealValueType(a.scalar_type());
  at::native::checkLinalgCompatibleDtype(kLstsq, solution, a, "solution");
  at::native::checkLinalgCompatibleDtype(kLstsq, residuals.scalar_type(), real, "residuals");
  at::native::checkLinalgCompatibleDtype(kLstsq, rank.scalar_type(), at::kLong, "rank");
  at::native::checkLinalgCompatibleDtype(kLstsq, singular_values.scalar_type(), real, "singular_values");
  const auto [x, left, count, values] = linalg_lstsq(a, b, rcond, driver);
  return {hand_over(x, solution), hand_over(left, residuals), hand_over(count, rank),
          hand_over(values, singular_values)};
}

}  // namespace aule::ops
