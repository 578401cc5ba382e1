#include "ops/sort/plan.h"

#include <algorithm>

#include "kernels_sort.gen.h"

namespace aule::ops {
namespace {

std::string text_of(const Grid& grid) { return std::to_string(grid.groups()); }

bool fits_workgroup(const DeviceProfile& profile, const SortBlockSpec& spec) {
  return static_cast<int>(profile.max_workgroup_invocations) >= spec.local.value &&
         shared_bytes(kernel::sort_block(1), spec) <= profile.shared_bytes;
}

}  // namespace

SortPlan sort_plan(const DeviceProfile& profile, const SortProblem& problem) {
  constexpr uint32_t kWorkgroup = 256, kSoftware = 32;
  // With two sets of keys 1 GiB, and half of that again for 64-bit dtypes' positions. Software's memory is the host's.
  constexpr uint64_t kElementsAtOnce = 1 << 26, kElementsAtOnceInSoftware = 1 << 22;
  SortPlan plan;
  plan.by_workgroup = !profile.is_software() && fits_workgroup(profile, {.block = kWorkgroup, .local = kWorkgroup});
  plan.local = plan.by_workgroup ? kWorkgroup : kSoftware;
  plan.block = plan.local;
  plan.has_positions = problem.dtype == DType::f64 || problem.dtype == DType::i64;
  const auto block = static_cast<uint64_t>(plan.block);
  for (uint64_t run = block; run < problem.n; run *= 2) ++plan.merges;
  const uint64_t at_once = profile.is_software() ? kElementsAtOnceInSoftware : kElementsAtOnce;
  plan.rows_at_once = std::min(problem.rows, std::max<uint64_t>(1, at_once / problem.n));
  const uint64_t rows = plan.rows_at_once, elements = rows * problem.n;
  plan.merge_grid = linear_grid(ceil_div(elements, plan.local));
  plan.block_grid = plan.by_workgroup ? linear_grid(rows * ceil_div(problem.n, block)) : plan.merge_grid;
  plan.emit_grid = linear_grid(ceil_div(rows * problem.count, plan.local));
  return plan;
}

std::string text_of(const SortPlan& plan) {
  return (plan.by_workgroup ? "sort by workgroup" : "sort by invocation") + std::string(" local ") +
         std::to_string(plan.local) + " block " + std::to_string(plan.block) +
         (plan.has_positions ? " positions" : "") + " groups " + text_of(plan.block_grid) + " merges " +
         std::to_string(plan.merges) + " rows " + std::to_string(plan.rows_at_once) + " groups " +
         text_of(plan.merge_grid) + " emit groups " + text_of(plan.emit_grid);
}

uint32_t search_local(const DeviceProfile& profile) { return profile.is_software() ? 32 : 128; }

}  // namespace aule::ops
