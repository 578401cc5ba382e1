#include "ops/norm/rowwise_launch.h"

#include <algorithm>
#include <bit>

namespace aule::ops {

RowLaunch row_launch(const Caps& caps, uint64_t rows, uint64_t n, uint64_t inner,
                     std::initializer_list<const at::Tensor*> tensors, bool alone, uint32_t any) {
  RowLaunch r{};
  r.vec = inner == 1 && n % 4 == 0;
  for (const at::Tensor* t : tensors) {
    if (!t->defined()) continue;
    const uint64_t access = 4 * t->element_size();
    if (access > 16 || t->element_size() < 2 || !t->is_floating_point() || address_of(*t) % access != 0) r.vec = 0;
  }
  bool halves = false, doubles = false;
  for (const at::Tensor* t : tensors) {
    if (!t->defined()) continue;
    halves = halves || t->element_size() == 2;
    doubles = doubles || t->element_size() == 8;
  }
  const bool group = !alone && !caps.is_software() && inner == 1 && n >= 16;
  r.group = !group                                                                                         ? 0
            : caps.subgroup_arithmetic && caps.subgroup_shuffle && caps.min_subgroup_size >= 4 && !doubles ? 2
                                                                                                           : 1;
  if (!r.group) {
    r.local = caps.is_software() ? 8 : 64;
    r.grid = linear_grid(ceil_div(rows, r.local));
    return r;
  }
  if (r.vec && halves && n % 8 == 0) {
    r.vec = 2;
    for (const at::Tensor* t : tensors)
      if (t->defined() && address_of(*t) % 16 != 0) r.vec = 1;
  }
  constexpr uint32_t kItems = 4, kMostItems = 8;
  const uint32_t largest = std::min<uint32_t>(1024, std::bit_floor(caps.max_workgroup_invocations));
  const auto shape = [&](uint64_t elements) {
    const uint64_t vec4s = (elements + 3) / 4;
    r.local = static_cast<uint32_t>(std::clamp<uint64_t>(std::bit_ceil((vec4s + kItems - 1) / kItems), 32, 256));
    while (r.local < largest && vec4s > uint64_t{r.local} * kMostItems) r.local *= 2;
    uint64_t items = (vec4s + r.local - 1) / r.local;
    if (r.vec >= 2) items += items & 1;  // in pairs
    r.items = items <= kMostItems ? static_cast<int>(items) : 0;
  };
  shape(n);
  r.is_full = r.vec != 0 && uint64_t{r.local} * r.items * 4 == n;
  if (any && (r.vec == 0 || r.items == 0)) {
    bool fits = true;
    for (const at::Tensor* t : tensors)
      fits = fits && t->element_size() == 2 && t->is_floating_point() && address_of(*t) % 16 == 0;
    if (fits) {
      r.vec = 3;
      shape(n + 7);  // a row may begin at the end of a block
      if (r.items == 0) r.local = std::min(largest, any);
    }
  }
  r.grid = linear_grid(rows);
  return r;
}

}  // namespace aule::ops
