#include "ops/attention/sequences_plan.h"

#include "ops/tensor/loop_limit.h"

namespace aule::ops {

std::optional<SequencesPlan> sequences_plan(const Caps& caps, const SequencesProblem& problem) {
  constexpr uint32_t kMostGroups = 32768;
  const bool software = caps.is_software();
  SequencesPlan plan{software ? 2U : 64U, software ? 8U : 128U};  // workgroups return at once if there is no padding
  uint64_t walk = problem.batch / 8;
  for (const auto& tail : problem.tails) walk += tail.rows * (1 + tail.heads * tail.dim / 8 + 1);
  while (plan.groups < kMostGroups && !may_walk(caps, walk / plan.groups + 8)) plan.groups *= 2;
  if (!may_walk(caps, walk / plan.groups + 8)) return {};
  return plan;
}

std::string text_of(const SequencesPlan& plan) {
  return "groups " + std::to_string(plan.groups) + " local " + std::to_string(plan.local);
}

}  // namespace aule::ops
