#include "ops/norm/forward_persistent.h"

#include <algorithm>
#include <bit>

#include "kernels_norm.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
bool norm_forward_persistent(const char* name, int64_t rows, int64_t n, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                             const at::Tensor& rstd) {
  const Caps& caps = caps_of(x);
  constexpr int64_t kItems = 8, kLocal = 128, kResident = 1280;  // invocations of a multiprocessor
  if (caps.is_software() || n <= kLocal * kItems * 2 || n % 8 != 0 || rows > 0x7fffffff) return false;
  if (x.element_size() != 2 || y.element_size() != 2) return false;
  for (const at::Tensor* t : {&x, &y, &w, &b})
    if (t->defined() && (t->element_size() > 4 || address_of(*t) % 16 != 0)) return false;
  const int64_t vec4s = n / 4, largest = std::min<uint32_t>(1024, std::bit_floor(caps.max_workgroup_invocations));
  int64_t local = kLocal;
  while (local < largest && vec4s > local * kItems) local *= 2;
  if (local > largest || vec4s > local * kItems) return false;
  const int64_t each = (vec4s + local - 1) / local, items = each + (each & 1);  // in pairs
  const int64_t resident = std::max<int64_t>(1, kResident / local) * profile_of(x).multiprocessors;
  const int64_t groups = std::min(rows, resident);
  if (!may_walk(caps, 16 * ceil_div(rows, groups))) return false;  // its trees' loops counted
  TensorArgs args;
  NormFwdPersistentParams p{};
  p.x = args.read(x);
  p.y = args.write(y);
  if (w.defined()) p.w = args.read(w);
  if (b.defined()) p.b = args.read(b);
  p.mean = args.write(mean);
  p.rstd = args.write(rstd);
  p.rows = static_cast<uint32_t>(rows);
  p.n = static_cast<uint32_t>(n);
  p.groups = static_cast<uint32_t>(groups);
  p.eps = static_cast<float>(eps);
  const NormFwdPersistentSpec spec{.x_dtype = dtype_of(x, name),
                                   .y_dtype = dtype_of(y, name),
                                   .w_dtype = dtype_or_float(w, name),
                                   .b_dtype = dtype_or_float(b, name),
                                   .has_weight = w.defined(),
                                   .has_bias = b.defined(),
                                   .kept = static_cast<int>(items),
                                   .local = static_cast<int>(local),
                                   .is_full = local * items * 4 == n};
  const bool subgroups = caps.subgroup_arithmetic && caps.subgroup_shuffle && caps.min_subgroup_size >= 4;
  launch(current(x), kernel::norm_fwd_persistent(subgroups ? 2 : 1), spec, p, args, linear_grid(groups));
  return true;
}

}  // namespace aule::ops
