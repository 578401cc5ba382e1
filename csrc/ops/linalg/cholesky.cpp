#include "ops/linalg/cholesky.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex_native.h>

#ifdef AULE_HAS_CHOLESKY
#include <ATen/ops/cholesky_native.h>
#endif

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
  const CholeskyPlan plan = cholesky_plan(profile_of(a), number_dtype("cholesky", a), n);
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
  const at::Tensor matrices = matrices_of(a);
  // a = U^H U has the transpose U^T conj(U), whose lower triangle is a's upper one.
  factorize(upper ? matrices.mT() : matrices, info.view({matrices.size(0)}), 0);
}

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
  Structured<at::native::structured_linalg_cholesky_ex_out, 2> op({&l, &info});
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
