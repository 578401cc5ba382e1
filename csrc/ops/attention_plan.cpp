#include "ops/attention_plan.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace aule::ops {
namespace {

int round_up(int64_t value, int step) { return static_cast<int>((value + step - 1) / step * step); }

// Everything of a lane's rows is in registers, in truth on the stack of the driver's code: 16 KiB of it is half a
// first-level cache. Small problems take one row per lane, whose pipeline compiles four times faster.
AttentionPlan plan_rows(const Caps& caps, const AttentionProblem& problem, AttentionPass pass) {
  AttentionPlan plan;
  const bool lanes = caps.subgroup_size == 4 || caps.subgroup_size == 8 || caps.subgroup_size == 16;
  if (!lanes || !caps.subgroup_shuffle || problem.head_dim > 128 || problem.v_dim > 128) return plan;
  plan.family = AttentionFamily::rows;
  plan.local = static_cast<int>(caps.subgroup_size);
  plan.dim = round_up(problem.head_dim, 2 * plan.local);
  plan.v_dim = round_up(problem.v_dim, 2 * plan.local);
  const int vectors = pass == AttentionPass::forward ? plan.dim + plan.v_dim
                      : pass == AttentionPass::dq    ? 2 * plan.dim + plan.v_dim
                                                     : 2 * (plan.dim + plan.v_dim);
  plan.rows = 4;
  while (plan.rows > 1 && plan.rows * vectors > 512) plan.rows /= 2;
  const double work = static_cast<double>(problem.batch * problem.heads) * static_cast<double>(problem.q_len) *
                      static_cast<double>(problem.k_len) * static_cast<double>(problem.head_dim + problem.v_dim);
  if (work < 4e6) plan.rows = 1;
  plan.block = plan.local * plan.rows;
  return plan;
}

// Accumulators decide: R * columns / 8 floats of an invocation, twice that for dK and dV. R = 4 needs 23 KiB of shared memory.
AttentionPlan plan_tiles(const Caps& caps, const AttentionProblem& problem, AttentionPass pass) {
  AttentionPlan plan;
  plan.family = AttentionFamily::tiles;
  plan.local = 128;
  const int64_t dim = pass == AttentionPass::forward ? problem.v_dim
                      : pass == AttentionPass::dq    ? problem.head_dim
                                                     : std::max(problem.head_dim, problem.v_dim);
  plan.columns = std::min(round_up(dim, 32), 128);
  plan.splits = static_cast<int>((dim + plan.columns - 1) / plan.columns);
  const int64_t length = pass == AttentionPass::dkdv ? problem.k_len : problem.q_len;
  plan.rows = length <= 16 ? 1 : length <= 32 ? 2 : 4;
  if (plan.rows == 4 && (caps.max_shared_bytes < 24 * 1024 || (pass == AttentionPass::dkdv && plan.columns > 64))) plan.rows = 2;
  plan.block = 16 * plan.rows;
  return plan;
}

}  // namespace

AttentionPlan attention_plan(const Caps& caps, const AttentionProblem& problem, AttentionPass pass) {
  if (problem.head_dim > kMaxHeadDim || problem.v_dim > kMaxHeadDim) return {};
  const char* asked = std::getenv("AULE_ATTENTION_VARIANT");
  const std::string_view variant = asked == nullptr ? "" : asked;
  const bool rows = variant == "rows" || (variant != "tiles" && caps.kind == Caps::Kind::cpu);
  if (rows) {
    const AttentionPlan plan = plan_rows(caps, problem, pass);
    if (plan.family != AttentionFamily::none) return plan;
  }
  return plan_tiles(caps, problem, pass);
}

const char* attention_family_name(AttentionFamily family) {
  switch (family) {
    case AttentionFamily::rows: return "rows";
    case AttentionFamily::tiles: return "tiles";
    default: return "none";
  }
}

}  // namespace aule::ops
