#include "ops/norm/params.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels_norm.gen.h"
#include "ops/reduce/run.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

void sum_param_grads(const char* name, const ParamSums& s, const at::Tensor& grad, const at::Tensor& x,
                     const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dw, const at::Tensor& db) {
  if (s.n_out == 0 || (!dw.defined() && !db.defined())) return;
  const Caps& caps = caps_of(x);
  const bool cpu = caps.is_software();
  const bool group = !cpu && s.hop != 1;
  const DType c = stat_type(x) == at::kDouble ? DType::f64 : DType::f32;
  // The sum is split into enough chunks to fill the device. A chunk is long enough to pay for the second addition.
  const bool vec = !group && s.hop == 1 && s.n_out % 4 == 0 && s.stat_div % 4 == 0 && c == DType::f32 && s.inner == 1 &&
                   address_of(grad) % 16 == 0 && address_of(x) % 16 == 0;
  const int64_t outputs = vec ? s.n_out / 4 : s.n_out;
  const int64_t wanted = (cpu ? 128 : group ? 512 : 32768) / outputs, shortest = group ? 2048 : 32;
  int64_t splits = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, s.n_red / shortest));
  if (walks_limited(caps)) splits = std::max<int64_t>(splits, ceil_div(s.n_red, longest_walk(caps)));
  const int64_t chunk = std::max<int64_t>(1, (s.n_red + splits - 1) / splits);
  const int64_t chunks = std::max<int64_t>(1, (s.n_red + chunk - 1) / chunk);
  if (s.n_red == 0) {
    if (dw.defined()) dw.zero_();
    if (db.defined()) db.zero_();
    return;
  }

  auto options = x.options().dtype(stat_type(x));
  at::Tensor part_w = dw.defined() ? at::empty({chunks, s.n_out}, options) : at::Tensor();
  at::Tensor part_b = db.defined() ? at::empty({chunks, s.n_out}, options) : at::Tensor();
  TensorArgs args;
  NormBwdParamsParams p{};
  p.grad = args.read(grad);
  p.x = args.read(x);
  if (mean.defined()) p.mean = args.read(mean);
  if (rstd.defined()) p.rstd = args.read(rstd);
  if (part_w.defined()) p.dw = args.write(part_w);
  if (part_b.defined()) p.db = args.write(part_b);
  p.n_red = s.n_red;
  p.chunk = chunk;
  p.hop1 = s.hop1;
  p.n_out = static_cast<uint32_t>(s.n_out);
  p.inner = static_cast<uint32_t>(s.inner);
  p.hop = static_cast<uint32_t>(s.hop);
  p.stat_hop = static_cast<uint32_t>(s.stat_hop);
  p.stat_div = static_cast<uint32_t>(s.stat_div);
  const uint32_t local = group ? 256 : cpu ? 8 : 64;
  NormBwdParamsSpec spec{.g_dtype = dtype_of(grad, name),
                         .x_dtype = dtype_of(x, name),
                         .is_rms = !mean.defined(),
                         .wants_dw = part_w.defined(),
                         .wants_db = part_b.defined(),
                         .vec = vec ? 1 : 0,
                         .local = local};
  const int64_t work = outputs * chunks;
  launch(current(x), kernel::norm_bwd_params(c, group ? 1 : 0), spec, p, args,
         linear_grid(group ? work : ceil_div(work, local)));
  const Reduction sum{ReduceOp::sum, ReduceKind::value, 0, false};
  DimMask rows;
  rows.set(0);
  if (dw.defined()) run_reduction(name, sum, part_w, rows, dw.view({s.n_out}));
  if (db.defined()) run_reduction(name, sum, part_b, rows, db.view({s.n_out}));
}

}  // namespace aule::ops
