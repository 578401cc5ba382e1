#include "ops/linalg/cholesky.h"

#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex_native.h>

#ifdef AULE_HAS_CHOLESKY
#include <ATen/ops/cholesky_native.h>
#endif

#include "core/environment.h"
#include "kernels_linalg.gen.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/structured.h"
#include "ops/linalg/triangular.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

constexpr int64_t kCholeskyCut = 32;  // where matrices are cut

CholeskyPlan plan_of(const at::Tensor& a) {
  return cholesky_plan(profile_of(a), number_dtype("cholesky", a), a.size(-1), overrides());
}

// By one launch of cholesky_panel.comp: columns [first, first + width) of `a`. `diagonals` is undefined where the
// matrix is one panel.
void factorize_panel(const at::Tensor& a, const CholeskyPlan& plan, const at::Tensor& info, int64_t first,
                     int64_t width, const at::Tensor& diagonals) {
  const int64_t n = a.size(1), below = n - first - width;
  TensorArgs args;
  CholeskyPanelParams p{};
  p.a = args.read_write(a);
  p.info = args.read_write(info);
  if (diagonals.defined()) p.diagonals = args.write(diagonals);
  set_matrices(p, a);
  p.n = static_cast<uint32_t>(n);
  p.first = static_cast<uint32_t>(first);
  p.width = static_cast<uint32_t>(width);
  const uint64_t strips =
      plan.below == 0 ? 1 : std::max<uint64_t>(ceil_div(static_cast<uint64_t>(below), uint64_t{16} * plan.below), 1);
  launch(current(a), kernel::cholesky_panel(),
         {.tiles = static_cast<int>(plan.tiles), .below = static_cast<int>(plan.below)}, p, args,
         linear_grid(strips * p.batches));
}

// The lower triangle of c -= x x^T, by one launch of cholesky_update.comp.
void update_triangle(const at::Tensor& c, const at::Tensor& x, const CholeskyPlan& plan, const at::Tensor& info) {
  const int64_t m = c.size(1);
  const uint32_t side = cholesky_update_side(plan, m, c.size(0));
  TensorArgs args;
  CholeskyUpdateParams p{};
  p.x = args.read(x);
  p.c = args.read_write(c);
  p.info = args.read(info);
  set_matrices(p, c);
  p.m = static_cast<uint32_t>(m);
  p.k = static_cast<uint32_t>(x.size(2));
  const bool along_k = p.col < p.row;
  const int64_t small = along_k ? p.col : p.row, large = along_k ? p.row : p.col;
  const bool aligned = p.x % 16 == 0 && p.c % 16 == 0 && large % 4 == 0 && (p.batch_stride % 4 == 0 || p.batches == 1);
  const uint64_t sides = ceil_div(static_cast<uint64_t>(m), uint64_t{16} * side);
  launch(current(c), kernel::cholesky_update(),
         {.side = static_cast<int>(side),
          .along_k = along_k,
          .vec = small == 1 && aligned && m % 4 == 0 && p.k % 4 == 0 ? 4 : 1},
         p, args, linear_grid(sides * (sides + 1) / 2 * p.batches));
}

// By panels of cholesky_panel.comp. The other triangle becomes zero.
void factorize_by_panels(const at::Tensor& a, const CholeskyPlan& plan, const at::Tensor& info) {
  const int64_t n = a.size(1), side = plan.columns();
  if (plan.at_once) return factorize_panel(a, plan, info, 0, n, {});
  const int64_t panels = (n + side - 1) / side;
  const at::Tensor diagonals = at::empty({a.size(0), panels, side, side}, a.options());
  for (int64_t first = 0; first < n; first += side) {
    const int64_t width = std::min(side, n - first), rest = n - first - width;
    factorize_panel(a, plan, info, first, width, diagonals);
    if (rest == 0) break;
    const int64_t after = first + width;
    update_triangle(block(a, after, rest, after, rest), block(a, after, rest, first, width), plan, info);
  }
  TensorArgs args;
  CholeskyFinishParams p{};
  p.a = args.read_write(a);
  p.info = args.read(info);
  p.diagonals = args.read(diagonals);
  set_matrices(p, a);
  p.n = static_cast<uint32_t>(n);
  launch(current(a), kernel::cholesky_finish(), {.side = static_cast<int>(side)}, p, args,
         linear_grid(static_cast<uint64_t>(panels * panels) * p.batches));
}

void factorize_block(const at::Tensor& a, const CholeskyPlan& plan, const at::Tensor& info, int64_t first) {
  const int64_t n = a.size(1);
  TensorArgs args;
  CholeskyBlockParams p{};
  p.a = args.read_write(a);
  p.info = args.read_write(info);
  set_matrices(p, a);
  p.n = static_cast<uint32_t>(n);
  p.first = static_cast<uint32_t>(first);
  launch(current(a), kernel::cholesky_block(number_dtype("cholesky", a)),
         {.elements = static_cast<int>(plan.side * plan.side),
          .side = static_cast<int>(plan.side),
          .local = static_cast<int>(plan.local)},
         p, args, linear_grid(p.batches));
}

// The lower triangle of c -= a a^H.
void update_lower(const at::Tensor& c, const at::Tensor& a) {
  constexpr int64_t kWhole = 256;  // below, the half that is not needed costs less than another launch
  const int64_t n = c.size(1);
  if (n <= kWhole) return gemm("cholesky", a, a.mT().conj(), c, 1, -1, c);
  const int64_t first = first_half(n, kCholeskyCut), rest = n - first;
  const at::Tensor above = a.narrow(1, 0, first), below = a.narrow(1, first, rest);
  update_lower(block(c, 0, first, 0, first), above);
  const at::Tensor corner = block(c, first, rest, 0, first);
  gemm("cholesky", below, above.mT().conj(), corner, 1, -1, corner);
  update_lower(block(c, first, rest, first, rest), below);
}

// The lower triangle, by halves: products grow with the matrix.
void factorize(const at::Tensor& a, const at::Tensor& info, int64_t first_column) {
  const int64_t n = a.size(1);
  const CholeskyPlan plan = plan_of(a);
  if (plan.at_once) return factorize_block(a, plan, info, first_column);
  const int64_t first = first_half(n, kCholeskyCut), rest = n - first;
  const at::Tensor top = block(a, 0, first, 0, first), below = block(a, first, rest, 0, first);
  factorize(top, info, first_column);
  solve_left({top.conj(), false, false}, below.mT());  // below = x top^H
  update_lower(block(a, first, rest, first, rest), below);
  factorize(block(a, first, rest, first, rest), info, first_column + first);
}

// x = (factor factor^H)^-1 x of a lower factor, of an upper one (factor^H factor)^-1 x.
void solve_with_factor(const at::Tensor& factor, bool upper, const at::Tensor& x) {
  const Triangle t{matrices_to_read(factor), upper, false};
  solve_left(upper ? t.adjoint() : t, x);
  solve_left(upper ? t : t.adjoint(), x);
}

}  // namespace

void cholesky_in_place(const at::Tensor& a, const at::Tensor& info, bool upper) {
  info.zero_();
  if (a.numel() == 0) return;
  const at::Tensor matrices = matrices_of(a), infos = info.view({matrices.size(0)});
  // a = U^H U has the transpose U^T conj(U), whose lower triangle is a's upper one.
  const at::Tensor lower = upper ? matrices.mT() : matrices;
  const CholeskyPlan plan = plan_of(a);
  if (plan.tiles > 0) return factorize_by_panels(lower, plan, infos);
  factorize(lower, infos, 0);
}

namespace {

// PyTorch's steps, but that a factorization by panels has left zeros in the other triangle.
template <class Op>
struct CholeskySteps : Op {
  static void impl(const at::Tensor& a, bool upper, bool check_errors, const at::Tensor& l, const at::Tensor& info) {
    l.copy_(a);
    cholesky_in_place(l, info, upper);
    if (l.numel() == 0) return;
    if (plan_of(l).tiles == 0) {
      if (upper)
        l.triu_();
      else
        l.tril_();
    }
    if (check_errors) at::_linalg_check_errors(info, "linalg.cholesky_ex", a.dim() == 2);
  }
};

}  // namespace

#ifdef AULE_HAS_CHOLESKY
at::Tensor cholesky(const at::Tensor& self, bool upper) {
  number_dtype("cholesky", self);
  return at::native::cholesky(self, upper);
}
at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  number_dtype("cholesky", self);
  return at::native::cholesky_out(self, upper, out);
}
#endif
std::tuple<at::Tensor&, at::Tensor&> linalg_cholesky_ex_out(const at::Tensor& self, bool upper, bool check_errors,
                                                            at::Tensor& l, at::Tensor& info) {
  number_dtype("linalg_cholesky_ex", self);
  Structured<CholeskySteps<at::native::structured_linalg_cholesky_ex_out>, 2> op({&l, &info});
  op.run(self, upper, check_errors);
  return {l, info};
}

at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor& a, bool upper) {
  number_dtype("cholesky_solve", self);
  const at::Tensor x = at::empty(self.mT().sizes(), self.options()).mT();  // column by column
  x.copy_(self);
  if (x.numel() > 0) solve_with_factor(a, upper, matrices_of(x));
  return x;
}

at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  number_dtype("cholesky_inverse", self);
  TORCH_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2),
              "cholesky_inverse: A must be batches of square matrices, but got a tensor with sizes ", self.sizes());
  const at::Tensor x = at::empty(self.sizes(), self.options()).mT();
  x.zero_().diagonal(0, -2, -1).fill_(1);
  if (x.numel() > 0) solve_with_factor(self, upper, matrices_of(x));
  return x;
}
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  check_same_device("cholesky_inverse", {&self, &out});
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "cholesky_inverse: Expected result to have the dtype ",
              self.scalar_type(), ", but got ", out.scalar_type());
  return hand_over(ops::cholesky_inverse(self, upper), out);
}

}  // namespace aule::ops
