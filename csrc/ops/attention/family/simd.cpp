#include "ops/attention/family/simd.h"

#include <sstream>

#include "ops/attention/family/launch.h"

namespace aule::ops {

bool FlashSimdPlan::is_usual(const DeviceProfile& profile, const AttentionProblem&, AttentionVariant asked) {
  return asked != AttentionVariant::simt && profile.is_software();
}

// A lane's rows are in registers, which are the stack of the driver's code: 16 KiB of it is half a first-level cache.
// Small problems take one row per lane, because that pipeline compiles four times faster.
std::optional<FlashSimdPlan> FlashSimdPlan::make(const DeviceProfile& profile, const AttentionProblem& problem,
                                                 AttentionPass pass, const Overrides&) {
  const bool lanes = profile.subgroup_size == 4 || profile.subgroup_size == 8 || profile.subgroup_size == 16;
  if (!lanes || !profile.subgroup_shuffle || problem.head_dim > 128 || problem.v_dim > 128) return {};
  FlashSimdPlan plan;
  plan.local = static_cast<int>(profile.subgroup_size);
  plan.dim = narrow<int>(round_up(problem.head_dim, 2 * plan.local));
  plan.v_dim = narrow<int>(round_up(problem.v_dim, 2 * plan.local));
  const int vectors = pass == AttentionPass::forward ? plan.dim + plan.v_dim
                      : pass == AttentionPass::dq    ? 2 * plan.dim + plan.v_dim
                                                     : 2 * (plan.dim + plan.v_dim);
  plan.lane_rows = 4;
  while (plan.lane_rows > 1 && plan.lane_rows * vectors > 512) plan.lane_rows /= 2;
  const double work = static_cast<double>(problem.batch * problem.heads) * static_cast<double>(problem.q_len) *
                      static_cast<double>(problem.k_len) * static_cast<double>(problem.head_dim + problem.v_dim);
  if (work < 4e6) plan.lane_rows = 1;
  plan.block = plan.local * plan.lane_rows;
  return plan;
}

std::string text_of(const FlashSimdPlan& p) {
  std::ostringstream text;
  text << " local=" << p.local << " dim=" << p.dim << " v_dim=" << p.v_dim << " lane_rows=" << p.lane_rows
       << " block=" << p.block;
  return text.str();
}

void set_call(SimdSpec& spec, const AttentionCall& call, const FlashSimdPlan& plan, AttentionPass,
              const AttentionOperands& operands, const DsMode&) {
  spec.local = plan.local;
  spec.dp = plan.dim;
  spec.dvp = plan.v_dim;
  spec.rows = plan.lane_rows;
  spec.vec2 = multiples_of(2, operands.rows);
  spec.padded = plan.dim != call.problem.head_dim || plan.v_dim != call.problem.v_dim;
  spec.grad_bias = operands.grad_bias;
}

void launch_forward(const AttentionCall& call, const FlashSimdPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp) {
  launch_flash_forward(kernel::flash_attn_fwd_simd(), call, plan, out, logsumexp);
}
void launch_dq(const Backward& backward, const FlashSimdPlan& plan) {
  launch_flash_dq(kernel::flash_attn_bwd_dq_simd(), backward, plan);
}
void launch_dkdv(const Backward& backward, const FlashSimdPlan& plan) {
  launch_flash_dkdv(kernel::flash_attn_bwd_dkdv_simd(), backward, plan);
}

}  // namespace aule::ops
