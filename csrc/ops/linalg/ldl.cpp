#include "ops/linalg/ldl.h"

#include <ATen/ops/linalg_ldl_factor_ex_native.h>
#include <ATen/ops/linalg_ldl_solve_native.h>

#include "kernels_linalg.gen.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/structured.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

LdlPlan ldl_plan_of(const at::Tensor& a) { return ldl_plan(profile_of(a), static_cast<uint64_t>(a.size(-1))); }

}  // namespace

void ldl_factor(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& info, bool upper, bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg_ldl_factor: there is no kernel for upper triangles");
  info.zero_();
  if (ld.numel() == 0) return;
  const at::Tensor matrices = matrices_of(as_columns(ld));
  const int64_t n = matrices.size(1);
  const at::Tensor rows = pivots.view({matrices.size(0), n});
  TensorArgs args;
  LdlFactorParams p{};
  p.a = args.read_write(matrices);
  p.pivots = args.write(rows);
  p.info = args.write(info);
  set_matrices(p, matrices);
  p.pivots_batch = rows.stride(0);
  p.n = static_cast<uint32_t>(n);
  launch(current(ld), kernel::ldl_factor(number_dtype("linalg_ldl_factor", ld)),
         {.is_hermitian = hermitian && ld.is_complex(), .local = static_cast<int>(ldl_plan_of(ld).local)}, p, args,
         linear_grid(p.batches));
}

void ldl_solve(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& b, bool upper, bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg_ldl_solve: there is no kernel for upper triangles");
  if (b.numel() == 0) return;
  const int64_t n = ld.size(-1);
  const at::Tensor a = matrices_to_read(ld.expand(with_batch_of(b, {n, n}))), x = matrices_of(as_columns(b));
  const at::Tensor rows = pivots_for(pivots, b);
  const at::Tensor stored = a.is_conj() ? a.resolve_conj() : a;
  TensorArgs args;
  LdlSolveParams p{};
  p.a = args.read(stored);
  p.pivots = args.read(rows);
  p.x = args.read_write(x);
  p.a_batch = stored.stride(0);
  p.a_row = stored.stride(1);
  p.a_col = stored.stride(2);
  p.pivots_batch = rows.stride(0);
  p.x_batch = x.stride(0);
  p.x_row = x.stride(1);
  p.x_col = x.stride(2);
  p.n = static_cast<uint32_t>(n);
  p.columns = static_cast<uint32_t>(x.size(2));
  p.batches = static_cast<uint32_t>(x.size(0));
  launch(current(x), kernel::ldl_solve(number_dtype("linalg_ldl_solve", x)),
         {.is_hermitian = hermitian && x.is_complex()}, p, args,
         linear_grid(ceil_div(uint64_t{p.columns} * p.batches, LdlSolveParams::kLocal)));
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_ldl_factor_ex_out(const at::Tensor& self, bool hermitian,
                                                                           bool check_errors, at::Tensor& ld,
                                                                           at::Tensor& pivots, at::Tensor& info) {
  constexpr const char* kOp = "linalg_ldl_factor_ex";
  number_dtype(kOp, self);
  if (self.dim() >= 2) check_walk(kOp, caps_of(self), ldl_plan_of(self).factor_walk);
  Structured<at::native::structured_linalg_ldl_factor_ex_out, 3> op({&ld, &pivots, &info});
  op.run(self, hermitian, check_errors);
  return {ld, pivots, info};
}
at::Tensor& linalg_ldl_solve_out(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& b, bool hermitian,
                                 at::Tensor& out) {
  constexpr const char* kOp = "linalg_ldl_solve";
  number_dtype(kOp, ld);
  if (ld.dim() >= 2) check_walk(kOp, caps_of(ld), ldl_plan_of(ld).solve_walk);
  Structured<at::native::structured_linalg_ldl_solve_out, 1> op({&out});
  op.run(ld, pivots, b, hermitian);
  return out;
}

}  // namespace aule::ops
