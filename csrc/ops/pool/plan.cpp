#include "ops/pool/plan.h"

#include <algorithm>

#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

// Iterations along one axis: of a window; of the windows around one element.
uint64_t window_walk(const PoolWindow& w, size_t d) {
  const int64_t length = w.adaptive ? ceil_div(w.in[d], w.out[d]) + 1 : std::min(w.kernel[d], w.in[d]);
  return static_cast<uint64_t>(length);
}
uint64_t cover_walk(const PoolWindow& w, size_t d) {
  const int64_t reach = (int64_t{w.kernel[d]} - 1) * w.dilation[d] + 1,
                windows = w.adaptive ? ceil_div(w.out[d], w.in[d]) + 3 : reach / w.stride[d] + 1;
  return static_cast<uint64_t>(std::min<int64_t>(windows, w.out[d]));
}

uint64_t axis_walk(const PoolWindow& w, PoolPass pass, size_t d) {
  switch (pass) {
    case PoolPass::avg_forward: return window_walk(w, d);
    case PoolPass::max_forward: return 2 * window_walk(w, d);
    default: return cover_walk(w, d);
  }
}

}  // namespace

bool is_identity(const PoolWindow& w, size_t d) {
  return w.in[d] == w.out[d] && (w.adaptive || (w.kernel[d] == 1 && w.stride[d] == 1 && w.pad[d] == 0));
}

std::optional<PoolPlan> pool_plan(const Caps& caps, const PoolWindow& w, PoolPass pass) {
  const auto walk = [&](size_t d) { return axis_walk(w, pass, d); };
  PoolPlan plan;
  plan.at_once = may_walk(caps, walk(0) * (1 + walk(1) * (1 + walk(2))) + 8);
  if (plan.at_once) return plan;
  plan.scatters = pass == PoolPass::max_backward;
  if (plan.scatters) return plan;
  plan.part_taps = static_cast<int64_t>(longest_walk(caps));
  for (size_t d = 0; d < 3; ++d) {
    if (is_identity(w, d)) {
      plan.axes[d] = PoolAxis::identity;
    } else if (may_walk(caps, walk(d) + 8)) {
      plan.axes[d] = PoolAxis::whole;
    } else if (pass == PoolPass::avg_backward) {
      return {};
    } else {
      plan.axes[d] = w.adaptive ? PoolAxis::output_by_output : PoolAxis::in_parts;
    }
  }
  return plan;
}

std::string text_of(const PoolPlan& plan) {
  if (plan.at_once) return "pool at once";
  if (plan.scatters) return "pool by scatter";
  std::string text = "pool by axis";
  for (const PoolAxis axis : plan.axes) {
    switch (axis) {
      case PoolAxis::identity: text += " identity"; break;
      case PoolAxis::whole: text += " whole"; break;
      case PoolAxis::in_parts: text += " parts of " + std::to_string(plan.part_taps); break;
      case PoolAxis::output_by_output: text += " output by output"; break;
    }
  }
  return text;
}

}  // namespace aule::ops
