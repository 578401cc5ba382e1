#include "ops/attention/family/simt.h"

#include <algorithm>
#include <sstream>

#include "ops/attention/family/launch.h"
#include "ops/attention/family/tuning_table.h"

namespace aule::ops {

bool FlashSimtPlan::is_usual(const DeviceProfile&, const AttentionProblem&, AttentionVariant) { return true; }

std::optional<FlashSimtPlan> FlashSimtPlan::make(const DeviceProfile& profile, const AttentionProblem& problem,
                                                 AttentionPass pass, const Overrides& overrides) {
  const int64_t dim = pass == AttentionPass::forward ? problem.v_dim
                      : pass == AttentionPass::dq    ? problem.head_dim
                                                     : std::max(problem.head_dim, problem.v_dim);
  const int64_t length = pass == AttentionPass::dkdv ? problem.k_len : problem.q_len;
  const std::optional<SimtShape> shape = simt_shape(profile, pass, dim, length, overrides);
  if (!shape) return {};
  const SimtShape& s = *shape;
  FlashSimtPlan plan{s};
  plan.result_columns = simt_columns(s, dim);
  plan.result_parts = narrow<int>(ceil_div(dim, plan.result_columns));
  plan.block = s.local / s.lanes * s.rows;
  // For every subgroup size that the driver may choose: Adreno reports 128 and compiles for 64.
  plan.shuffles = profile.subgroup_shuffle && static_cast<int>(profile.min_subgroup_size) >= s.lanes &&
                  s.local % static_cast<int>(profile.max_subgroup_size) == 0;
  return plan;
}

std::string text_of(const FlashSimtPlan& plan) {
  std::ostringstream text;
  const SimtShape& s = plan.shape;
  text << " local=" << s.local << " lanes=" << s.lanes << " rows=" << s.rows << " columns=" << s.columns
       << " depth=" << s.depth << " strip=" << s.strip << " stages=" << s.stages << " unroll_scores=" << s.unroll_scores
       << " unroll_result=" << s.unroll_result << " most=" << s.most << " result_columns=" << plan.result_columns
       << " result_parts=" << plan.result_parts << " shuffles=" << plan.shuffles << " block=" << plan.block;
  return text.str();
}

void set_plan(SimtSpec& spec, const SimtShape& shape, int result_columns) {
  spec.local = shape.local;
  spec.result_columns = result_columns;
  spec.rows = shape.rows;
  spec.lanes = shape.lanes;
  spec.columns = shape.columns;
  spec.depth = shape.depth;
  spec.strip = shape.strip;
  spec.stages = shape.stages;
  spec.unroll_s = shape.unroll_scores;
  spec.unroll_o = shape.unroll_result;
}

void set_call(SimtSpec& spec, const AttentionCall&, const FlashSimtPlan& plan, AttentionPass,
              const AttentionOperands& operands, const DsMode&) {
  set_plan(spec, plan.shape, plan.result_columns);
  spec.splits = plan.result_parts;
  spec.vec4 = multiples_of(4, operands.rows);
  spec.grad_bias = operands.grad_bias;
}

void launch_forward(const AttentionCall& call, const FlashSimtPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp) {
  launch_flash_forward(kernel::flash_attn_fwd_simt(plan.shuffles ? 1 : 0), call, plan, out, logsumexp);
}
void launch_dq(const Backward& backward, const FlashSimtPlan& plan) {
  launch_flash_dq(kernel::flash_attn_bwd_dq_simt(plan.shuffles ? 1 : 0), backward, plan);
}
void launch_dkdv(const Backward& backward, const FlashSimtPlan& plan) {
  launch_flash_dkdv(kernel::flash_attn_bwd_dkdv_simt(plan.shuffles ? 1 : 0), backward, plan);
}

}  // namespace aule::ops
