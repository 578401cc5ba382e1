#include "ops/loss/plan.h"

#include <algorithm>
#include <bit>

#include "core/access.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {

std::optional<CrossEntropyPlan> cross_entropy_plan(const DeviceProfile& profile, const CrossEntropyProblem& problem) {
  constexpr uint32_t kLocal = 256;  // of long rows, and of the backward
  CrossEntropyPlan plan;
  plan.block_elems = 16 / static_cast<int64_t>(dtype_size(problem.dtype));
  if (profile.is_software() || profile.max_workgroup_invocations < kLocal) return {};
  if (problem.rows <= 0 || problem.n < plan.block_elems || problem.rows * problem.n >= 0xffffff00ll) return {};
  plan.by_subgroups = profile.subgroup_arithmetic && profile.min_subgroup_size >= 4;
  // A long row has a workgroup of its own. Shorter rows have small persistent workgroups, as many as are resident.
  constexpr int64_t kLongBlocks = 2048, kStaying = 1024;  // invocations of a multiprocessor
  const bool is_long = problem.n / plan.block_elems > kLongBlocks;
  plan.local = is_long ? kLocal : 32;
  plan.groups = problem.rows;
  if (!is_long && !problem.per_row && !walks_limited(profile))
    plan.groups = std::min(problem.rows, kStaying / plan.local * profile.multiprocessors);
  plan.sum_local = std::min<uint32_t>(1024, std::bit_floor(profile.max_workgroup_invocations));
  return plan;
}

std::string text_of(const CrossEntropyPlan& plan) {
  return (plan.by_subgroups ? "cross_entropy by subgroups" : "cross_entropy") + std::string(" local ") +
         std::to_string(plan.local) + " groups " + std::to_string(plan.groups) + " sum local " +
         std::to_string(plan.sum_local) + " elements " + std::to_string(plan.block_elems);
}

uint32_t nll_loss_chunks(const DeviceProfile& profile, int64_t positions) {
  const auto chunks = static_cast<uint32_t>(std::min<int64_t>(positions, 1024));
  if (!walks_limited(profile)) return chunks;
  return std::max(chunks, narrow<uint32_t>(ceil_div(static_cast<uint64_t>(positions), longest_walk(profile))));
}

}  // namespace aule::ops
