#include "ops/norm/persistent.h"

#include <ATen/ops/empty.h>

#include "kernels_norm.gen.h"
#include "ops/norm/params.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

template <class Params>
void set_sizes(Params& p, const NormRows& rows, const PersistentPlan& plan) {
  p.rows = static_cast<uint32_t>(rows.rows);
  p.n = static_cast<uint32_t>(rows.n);
  p.groups = plan.groups;
}

// The axis GROUP of both kernels.
int sums_axis(const PersistentPlan& plan) {
  return static_cast<int>(plan.subgroup_sums ? RowOwner::workgroup_subgroups : RowOwner::workgroup_tree);
}

}  // namespace

void norm_forward_persistent(const NormForwardProblem& problem, const PersistentPlan& plan, const at::Tensor& x,
                             const at::Tensor& w, const at::Tensor& b, double eps, const at::Tensor& y,
                             const at::Tensor& mean, const at::Tensor& rstd) {
  TensorArgs args;
  NormFwdPersistentParams p{};
  p.x = args.read(x);
  p.y = args.write(y);
  if (w.defined()) p.w = args.read(w);
  if (b.defined()) p.b = args.read(b);
  p.mean = args.write(mean);
  p.rstd = args.write(rstd);
  set_sizes(p, problem.rows, plan);
  p.eps = static_cast<float>(eps);
  const NormFwdPersistentSpec spec{.x_dtype = problem.x.dtype,
                                   .y_dtype = problem.y.dtype,
                                   .w_dtype = dtype_or_float(problem.w),
                                   .b_dtype = dtype_or_float(problem.b),
                                   .has_weight = w.defined(),
                                   .has_bias = b.defined(),
                                   .kept = plan.items,
                                   .local = static_cast<int>(plan.local),
                                   .is_full = plan.is_full};
  launch(current(x), kernel::norm_fwd_persistent(sums_axis(plan)), spec, p, args, linear_grid(plan.groups));
}

void norm_backward_persistent(const char* name, const NormBackwardProblem& problem, const PersistentBackwardPlan& plan,
                              const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w, const at::Tensor& mean,
                              const at::Tensor& rstd, const at::Tensor& dx, const at::Tensor& dw,
                              const at::Tensor& db) {
  const NormRows& rows = problem.rows;
  const auto part = [&](const at::Tensor& sum) {
    return sum.defined() ? at::empty({plan.rows.groups, rows.n}, x.options().dtype(at::kFloat)) : at::Tensor();
  };
  const at::Tensor part_w = part(dw), part_b = part(db);
  TensorArgs args;
  NormBwdPersistentParams p{};
  p.grad = args.read(grad);
  p.x = args.read(x);
  if (w.defined()) p.w = args.read(w);
  if (mean.defined()) p.mean = args.read(mean);
  p.rstd = args.read(rstd);
  if (dx.defined()) p.out_ = args.write(dx);
  if (part_w.defined()) p.dw = args.write(part_w);
  if (part_b.defined()) p.db = args.write(part_b);
  set_sizes(p, rows, plan.rows);
  const NormBwdPersistentSpec spec{.g_dtype = problem.grad.dtype,
                                   .x_dtype = problem.x.dtype,
                                   .out_dtype = dtype_or_float(problem.dx),
                                   .w_dtype = dtype_or_float(problem.w),
                                   .is_rms = rows.is_rms,
                                   .has_weight = w.defined(),
                                   .wants_dx = dx.defined(),
                                   .wants_dw = dw.defined(),
                                   .wants_db = db.defined(),
                                   .vec = static_cast<int>(plan.vec),
                                   .kept = plan.rows.items,
                                   .local = static_cast<int>(plan.rows.local),
                                   .is_full = plan.rows.is_full,
                                   .loads_ahead = plan.loads_ahead};
  launch(current(x), kernel::norm_bwd_persistent(sums_axis(plan.rows)), spec, p, args, linear_grid(plan.rows.groups));
  if (dw.defined() || db.defined()) add_parts(name, part_w, part_b, {dw, db, {}, {}, {}});
}

}  // namespace aule::ops
