#include "ops/norm/backward_persistent.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "kernels_norm.gen.h"
#include "kernels_reduce.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
bool norm_backward_persistent(const char* name, int64_t rows, int64_t n, const at::Tensor& grad, const at::Tensor& x,
                              const at::Tensor& w, const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx,
                              const at::Tensor& dw, const at::Tensor& db) {
  const Caps& caps = caps_of(x);
  if (caps.is_software() || rows == 0 || n < 16 || rows > 0x7fffffff) return false;
  int vec = n % 4 == 0 ? 1 : 0;
  bool halves = false, aligned16 = true;
  for (const at::Tensor* t : {&grad, &x, &w, &dx}) {
    if (!t->defined()) continue;
    if (t->element_size() != 2 && t->element_size() != 4) return false;
    halves = halves || t->element_size() == 2;
    if (address_of(*t) % (4 * t->element_size()) != 0) vec = 0;
    aligned16 = aligned16 && address_of(*t) % 16 == 0;
  }
  if (vec && halves && n % 8 == 0 && aligned16) vec = 2;
  const int64_t vec4s = (n + 3) / 4;
  const int64_t largest = std::min<uint32_t>(1024, std::bit_floor(caps.max_workgroup_invocations));
  // Two workgroups of 512 to a multiprocessor, of 256 for layer norm of half types: docs/ladders/norm_bwd_persistent.md
  const bool is_rms = !mean.defined();
  const int64_t most_local = halves && !is_rms ? 256 : 512, wanted_items = halves && !is_rms ? 4 : 2;
  int64_t local = std::bit_ceil(static_cast<uint64_t>((vec4s + wanted_items - 1) / wanted_items));
  local = std::clamp<int64_t>(local, 32, std::min(most_local, largest));
  constexpr int64_t kMostItems = 4;
  while (local < largest && vec4s > local * kMostItems) local *= 2;
  int64_t items = (vec4s + local - 1) / local;
  if (vec == 2) items += items & 1;  // in pairs
  if (items > kMostItems) return false;
  const bool wants = dw.defined() || db.defined();
  // As many workgroups as are resident at once. With fewer than 8 rows for each, their partial sums would cost too
  // much, so there are fewer, but one to a multiprocessor at least.
  const int64_t processors = profile_of(x).multiprocessors;
  const int64_t resident = processors * std::max<int64_t>(2, (halves && !is_rms ? 512 : 1024) / local);
  const int64_t groups = std::min({rows, resident, std::max(processors, rows / 8)});
  if (!may_walk(caps, 16 * ceil_div(rows, groups))) return false;  // its trees' loops counted

  const auto options = x.options().dtype(at::kFloat);
  const at::Tensor part_w = dw.defined() ? at::empty({groups, n}, options) : at::Tensor();
  const at::Tensor part_b = db.defined() ? at::empty({groups, n}, options) : at::Tensor();
  {
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
    p.rows = static_cast<uint32_t>(rows);
    p.n = static_cast<uint32_t>(n);
    p.groups = static_cast<uint32_t>(groups);
    const NormBwdPersistentSpec spec{.g_dtype = dtype_of(grad, name),
                                     .x_dtype = dtype_of(x, name),
                                     .out_dtype = dtype_or_float(dx, name),
                                     .w_dtype = dtype_or_float(w, name),
                                     .is_rms = !mean.defined(),
                                     .has_weight = w.defined(),
                                     .wants_dx = dx.defined(),
                                     .wants_dw = dw.defined(),
                                     .wants_db = db.defined(),
                                     .vec = vec,
                                     .kept = static_cast<int>(items),
                                     .local = static_cast<int>(local),
                                     .is_full = vec != 0 && local * items * 4 == n,
                                     .loads_ahead = halves && vec != 0};
    const bool subgroups = caps.subgroup_arithmetic && caps.min_subgroup_size >= 4;
    launch(current(x), kernel::norm_bwd_persistent(subgroups ? 2 : 1), spec, p, args, linear_grid(groups));
  }
  if (!wants) return true;
  TensorArgs args;
  NormParamsSumParams p{};
  if (dw.defined()) p.part_w = args.read(part_w), p.dw = args.write(dw);
  if (db.defined()) p.part_b = args.read(part_b), p.db = args.write(db);
  p.n = static_cast<uint32_t>(n);
  p.groups = static_cast<uint32_t>(groups);
  const uint32_t blocks = ceil_div(n, 32);
  p.blocks = dw.defined() ? blocks : 0;
  launch(current(x), kernel::norm_params_sum(),
         {.w_dtype = dtype_or_float(dw, name), .b_dtype = dtype_or_float(db, name)}, p, args,
         linear_grid(dw.defined() && db.defined() ? 2 * blocks : blocks));
  return true;
}

}  // namespace aule::ops
