// Family simd: a lane owns rows, operands pass by shuffles, no barrier. Software devices, head sizes to 128.
#pragma once
#include <optional>
#include <string>

#include "core/device_profile.h"
#include "core/environment.h"
#include "kernels_attention.gen.h"
#include "ops/attention/problem.h"

namespace at {
class Tensor;
}

namespace aule::ops {

struct AttentionCall;
struct AttentionOperands;
struct Backward;
struct DsMode;

struct FlashSimdPlan {
  int local = 0;           // invocations of a workgroup, one subgroup
  int dim = 0, v_dim = 0;  // padded head sizes
  int lane_rows = 0;       // rows that a lane owns
  int block = 0;           // rows of a workgroup

  // Whether the family is asked for a plan where the override attention_variant, `asked`, names another one, or none.
  static bool is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked);
  // Nothing where the family does not serve the problem on this device.
  static std::optional<FlashSimdPlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                           AttentionPass pass, const Overrides& overrides);
};
std::string text_of(const FlashSimdPlan& plan);

using SimdSpec = FlashAttnFwdSimdSpec;  // the kernels of simd.glsl have one list of constants
void set_call(SimdSpec& spec, const AttentionCall& call, const FlashSimdPlan& plan, AttentionPass pass,
              const AttentionOperands& operands, const DsMode& mode);

void launch_forward(const AttentionCall& call, const FlashSimdPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp);
void launch_dq(const Backward& backward, const FlashSimdPlan& plan);
void launch_dkdv(const Backward& backward, const FlashSimdPlan& plan);

}  // namespace aule::ops
