#include "ops/quantized/plan.h"

#include <algorithm>
#include <bit>

#include "ops/tensor/plan_text.h"

namespace aule::ops {

QuantizedGemvPlan quantized_gemv_plan(const DeviceProfile& profile, const QuantizedGemvProblem& g) {
  QuantizedGemvPlan plan;
  const bool by_expert = g.pairs > 0;
  plan.rows = by_expert || g.m <= 1 ? 1 : g.m <= 2 ? 2 : g.m <= 4 ? 4 : 8;
  const uint64_t tiles_m = by_expert ? g.pairs : (g.m + plan.rows - 1) / plan.rows;
  const auto groups = [&] {
    const uint64_t per_group = plan.local / plan.slice * plan.columns;
    return (g.n + per_group - 1) / per_group * tiles_m;
  };
  if (profile.software_simd()) {
    plan.local = 64;
    plan.slice = 8;
    plan.columns = plan.rows == 1 ? 1 : 2;  // for which an octet of x is loaded once
  } else {
    plan.local = std::min(128u, profile.max_workgroup_invocations / 32 * 32);
    plan.columns = plan.rows <= 2 ? 2 : 4;  // that share what is done to a row of x
    plan.slice = std::clamp<uint32_t>(std::bit_floor(static_cast<uint32_t>(std::min<uint64_t>(g.spans, 32))), 8, 32);
    // More invocations on one column while there are too few workgroups, and spans for all of them.
    const uint64_t enough = uint64_t{profile.multiprocessors} * 8;
    while (plan.slice < plan.local && groups() < enough && uint64_t{plan.slice} * 2 <= g.spans) plan.slice *= 2;
  }
  plan.grid = linear_grid(groups());
  return plan;
}

std::string text_of(const QuantizedGemvPlan& plan) {
  return "rows " + std::to_string(plan.rows) + " columns " + std::to_string(plan.columns) + " slice " +
         std::to_string(plan.slice) + " local " + std::to_string(plan.local) + " " + grid_text(plan.grid);
}

}  // namespace aule::ops
