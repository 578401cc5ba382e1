#include "ops/norm/params.h"

#include <ATen/ops/empty.h>

#include "kernels_norm.gen.h"
#include "kernels_reduce.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/reduce/run.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Parts {
  at::Tensor w, b;  // [chunks, n_out]
};

Parts launch_parts(const char* name, const ParamSums& s, const at::Tensor& grad, const at::Tensor& x,
                   const at::Tensor& mean, const at::Tensor& rstd, bool wants_w, bool wants_b) {
  const ParamSumsProblem problem{s, row_operand(grad, name), row_operand(x, name)};
  const ParamSumsPlan plan = param_sums_plan(profile_of(x), problem);
  const auto part = [&](bool wanted) {
    return wanted ? at::empty({plan.chunks, s.n_out}, x.options().dtype(stat_type(x))) : at::Tensor();
  };
  Parts parts{part(wants_w), part(wants_b)};
  TensorArgs args;
  NormBwdParamsParams p{};
  p.grad = args.read(grad);
  p.x = args.read(x);
  if (mean.defined()) p.mean = args.read(mean);
  if (rstd.defined()) p.rstd = args.read(rstd);
  if (wants_w) p.dw = args.write(parts.w);
  if (wants_b) p.db = args.write(parts.b);
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
                         .has_rstd = rstd.defined(),
                         .wants_dw = wants_w,
                         .wants_db = wants_b,
                         .vec = plan.vec4 ? 1 : 0,
                         .of_output = s.stat_hop == 0,
                         .local = plan.local};
  launch(current(x), kernel::norm_bwd_params(compute_type(problem.x.dtype), plan.by_workgroup ? 1 : 0), spec, p, args,
         plan.grid);
  return parts;
}

}  // namespace

void sum_param_grads(const char* name, const ParamSums& s, const at::Tensor& grad, const at::Tensor& x,
                     const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dw, const at::Tensor& db) {
  if (s.n_out == 0 || (!dw.defined() && !db.defined())) return;
  if (s.n_red == 0) {
    if (dw.defined()) dw.zero_();
    if (db.defined()) db.zero_();
    return;
  }
  const Parts parts = launch_parts(name, s, grad, x, mean, rstd, dw.defined(), db.defined());
  const Reduction sum{ReduceOp::sum, ReduceKind::value, 0, false};
  DimMask rows;
  rows.set(0);
  if (dw.defined()) run_reduction(name, sum, parts.w, rows, dw.view({s.n_out}));
  if (db.defined()) run_reduction(name, sum, parts.b, rows, db.view({s.n_out}));
}

void add_parts(const char* name, const at::Tensor& part_w, const at::Tensor& part_b, const PartSums& sums) {
  const at::Tensor& any = part_w.defined() ? part_w : part_b;
  TensorArgs args;
  NormParamsSumParams p{};
  if (part_w.defined()) p.part_w = args.read(part_w);
  if (part_b.defined()) p.part_b = args.read(part_b);
  if (sums.dw.defined()) p.dw = args.write(sums.dw);
  if (sums.db.defined()) p.db = args.write(sums.db);
  if (sums.dw2.defined()) p.dw2 = args.write(sums.dw2);
  if (sums.db2.defined()) p.db2 = args.write(sums.db2);
  if (sums.scale.defined()) p.scale = args.read(sums.scale);
  p.n = static_cast<uint32_t>(any.size(1));
  p.groups = static_cast<uint32_t>(any.size(0));
  const auto blocks = narrow<uint32_t>(ceil_div(any.size(1), 32));
  p.blocks = part_w.defined() ? blocks : 0;
  const NormParamsSumSpec spec{.w_dtype = dtype_or_float(sums.dw, name),
                               .b_dtype = dtype_or_float(sums.db, name),
                               .w2_dtype = dtype_or_float(sums.dw2, name),
                               .b2_dtype = dtype_or_float(sums.db2, name),
                               .wants_w = sums.dw.defined(),
                               .wants_b = sums.db.defined(),
                               .wants_w2 = sums.dw2.defined(),
                               .wants_b2 = sums.db2.defined(),
                               .has_scale = sums.scale.defined()};
  launch(current(any), kernel::norm_params_sum(compute_type(dtype_of(any, name))), spec, p, args,
         linear_grid(part_w.defined() && part_b.defined() ? 2 * blocks : blocks));
}

void add_param_sums(const char* name, const ParamSums& s, const at::Tensor& grad, const at::Tensor& x,
                    const at::Tensor& mean, const at::Tensor& rstd, const PartSums& results) {
  const bool wants_w = results.dw.defined() || results.dw2.defined();
  const bool wants_b = results.db.defined() || results.db2.defined();
  if (s.n_out == 0 || (!wants_w && !wants_b)) return;
  if (s.n_red == 0) {
    for (const at::Tensor* t : {&results.dw, &results.db, &results.dw2, &results.db2})
      if (t->defined()) t->zero_();
    return;
  }
  const Parts parts = launch_parts(name, s, grad, x, mean, rstd, wants_w, wants_b);
  add_parts(name, parts.w, parts.b, results);
}

}  // namespace aule::ops
