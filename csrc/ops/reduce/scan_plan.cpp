#include "ops/reduce/scan_plan.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {

std::optional<ScanPlan> scan_plan(const DeviceProfile& profile, const ScanProblem& problem) {
  const auto [rows, n, inner, turns] = problem;
  const bool cpu = profile.is_software();
  ScanPlan plan;
  plan.by_workgroup = !cpu && inner == 1 && n >= 32;
  plan.local = plan.by_workgroup ? std::min(256u, std::bit_floor(profile.max_workgroup_invocations)) : cpu ? 8 : 64;
  // If rows do not fill the device, chunks do. A chunk is long enough to pay for the second read.
  const uint64_t wanted = (cpu                 ? 32
                           : plan.by_workgroup ? 512
                                               : 16384) /
                          rows,
                 shortest = plan.by_workgroup ? 4096 : 256;
  uint64_t chunks = std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(1, n / shortest));
  if (walks_limited(profile)) {  // a workgroup takes a tile of `local` elements in 1 + log2(local) iterations
    const uint64_t walk = std::max<uint64_t>(1, longest_walk(profile) / turns),
                   longest = plan.by_workgroup ? std::max<uint64_t>(1, walk / 9) * plan.local : walk;
    chunks = std::max<uint64_t>(chunks, ceil_div(n, longest));
    if (!may_walk(profile, chunks * turns)) return std::nullopt;
  }
  plan.chunk = ceil_div(n, chunks);
  plan.chunks = ceil_div(n, plan.chunk);
  const uint64_t work = rows * plan.chunks;
  plan.grid = linear_grid(plan.by_workgroup ? work : ceil_div(work, plan.local));
  if (plan.chunks > 1) {
    const uint32_t local = plan.by_workgroup ? 8 : plan.local;
    plan.prefixes = ScanPlan::Prefixes{.local = local, .grid = linear_grid(ceil_div(rows, local))};
  }
  return plan;
}

std::string text_of(const ScanPlan& plan) {
  std::ostringstream text;
  text << "scan by " << (plan.by_workgroup ? "workgroup" : "invocation") << " local " << plan.local << " chunk "
       << plan.chunk << " chunks " << plan.chunks << ' ' << grid_text(plan.grid);
  if (plan.prefixes) text << ", prefixes local " << plan.prefixes->local << ' ' << grid_text(plan.prefixes->grid);
  return text.str();
}

}  // namespace aule::ops
