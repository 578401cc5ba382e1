#include "ops/rnn/plan.h"

#include <algorithm>

#include "kernels_rnn.gen.h"
#include "ops/matmul/route.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {

std::optional<ResidentPlan> resident_plan(const DeviceProfile& profile, const ResidentProblem& problem) {
  constexpr uint32_t kLocal = 512, kColumns = 4;  // resident.glsl: invocations, and columns of each
  // Weights that every workgroup reads each step, for one round of workgroups: about as long as the two dispatches of a
  // step take. An estimate, not yet measured.
  constexpr uint64_t kMostBytes = 512 << 10;
  constexpr uint64_t kMostSteps = 2048;  // of a dispatch, so that others get their turn
  const uint64_t hidden = problem.hidden, wide = hidden * static_cast<uint64_t>(gates_of(problem.cell));
  if (is_simd_device(profile) || profile.max_workgroup_invocations < kLocal) return std::nullopt;
  if (hidden % kColumns != 0 || hidden > kLocal || wide > kLocal * kColumns) return std::nullopt;
  const uint64_t sequences = uint64_t{problem.directions} * problem.batch;
  ResidentPlan plan;
  plan.rows = sequences > profile.multiprocessors && 2 * hidden <= kLocal ? 2 : 1;
  const uint64_t groups = uint64_t{problem.directions} * ceil_div(problem.batch, plan.rows);
  if (wide * hidden * dtype_size(problem.dtype) * ceil_div(groups, profile.multiprocessors) > kMostBytes)
    return std::nullopt;
  const auto cell = static_cast<int>(problem.cell);
  const uint64_t shared =
      std::max(shared_bytes(kernel::resident_forward(), {.cell = cell, .rows = plan.rows, .hidden = problem.hidden}),
               shared_bytes(kernel::resident_backward(), {.cell = cell, .rows = plan.rows, .hidden = problem.hidden}));
  if (shared > profile.shared_bytes) return std::nullopt;
  // Loops of a step, each over the vector or over a part of it, are shorter than this together.
  plan.steps = static_cast<uint32_t>(std::min(kMostSteps, longest_walk(profile) / (4 * wide + 64)));
  if (plan.steps == 0) return std::nullopt;
  plan.grid = linear_grid(groups);
  return plan;
}

std::string text_of(const ResidentPlan& plan) {
  return "resident sequences " + std::to_string(plan.rows) + " steps " + std::to_string(plan.steps) + " groups " +
         std::to_string(plan.grid.groups());
}

}  // namespace aule::ops
