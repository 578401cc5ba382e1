#include "ops/norm/params.h"

#include <ATen/ops/empty.h>

#include "kernels_norm.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/reduce/run.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

void sum_param_grads(const char* name, const ParamSums& s, const at::Tensor& grad, const at::Tensor& x,
                     const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dw, const at::Tensor& db) {
  if (s.n_out == 0 || (!dw.defined() && !db.defined())) return;
  if (s.n_red == 0) {
    if (dw.defined()) dw.zero_();
    if (db.defined()) db.zero_();
    return;
  }
  const DType c = stat_type(x) == at::kDouble ? DType::f64 : DType::f32;
  const ParamSumsProblem problem{s, row_operand(grad, name), row_operand(x, name)};
  const ParamSumsPlan plan = param_sums_plan(profile_of(x), problem);
  auto options = x.options().dtype(stat_type(x));
  at::Tensor part_w = dw.defined() ? at::empty({plan.chunks, s.n_out}, options) : at::Tensor();
  at::Tensor part_b = db.defined() ? at::empty({plan.chunks, s.n_out}, options) : at::Tensor();
  TensorArgs args;
  NormBwdParamsParams p{};
  p.grad = args.read(grad);
  p.x = args.read(x);
  if (mean.defined()) p.mean = args.read(mean);
  if (rstd.defined()) p.rstd = args.read(rstd);
  if (part_w.defined()) p.dw = args.write(part_w);
  if (part_b.defined()) p.db = args.write(part_b);
  p.n_red = s.n_red;
  p.chunk = plan.chunk;
  p.hop1 = s.hop1;
  p.n_out = static_cast<uint32_t>(s.n_out);
  p.inner = static_cast<uint32_t>(s.inner);
  p.hop = static_cast<uint32_t>(s.hop);
  p.stat_hop = static_cast<uint32_t>(s.stat_hop);
  p.stat_div = static_cast<uint32_t>(s.stat_div);
  NormBwdParamsSpec spec{.g_dtype = problem.grad.dtype,
                         .x_dtype = problem.x.dtype,
                         .is_rms = !mean.defined(),
                         .wants_dw = part_w.defined(),
                         .wants_db = part_b.defined(),
                         .vec = plan.vec4 ? 1 : 0,
                         .local = plan.local};
  launch(current(x), kernel::norm_bwd_params(c, plan.by_workgroup ? 1 : 0), spec, p, args, plan.grid);
  const Reduction sum{ReduceOp::sum, ReduceKind::value, 0, false};
  DimMask rows;
  rows.set(0);
  if (dw.defined()) run_reduction(name, sum, part_w, rows, dw.view({s.n_out}));
  if (db.defined()) run_reduction(name, sum, part_b, rows, db.view({s.n_out}));
}

}  // namespace aule::ops
