// Family simt: register blocks over tiles in shared memory. Every device, head sizes to 512.
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

struct SimtShape {
  int local = 0, lanes = 0;   // invocations of a workgroup; of them side by side in a row
  int rows = 0, columns = 0;  // of an invocation's scores
  int depth = 0, strip = 0;   // of a step: elements of the scores' operands; columns of scores for the result
  int stages = 1;             // steps in shared memory; 1: loads go straight there
  int unroll_scores = 1, unroll_result = 1;  // groups of four elements; rows
  int most = 128;                            // columns of the result of one workgroup
};
struct FlashSimtPlan {
  SimtShape shape;
  int result_columns = 0;  // of one workgroup
  int result_parts = 1;    // workgroups that share a block of rows, each with its own columns of the result
  bool shuffles = false;   // the lanes of a row are in one subgroup
  int block = 0;           // rows of a workgroup

  // Whether the family is asked for a plan where the override attention_variant, `asked`, names another one, or none.
  static bool is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked);
  // Nothing where the family does not serve the problem on this device.
  static std::optional<FlashSimtPlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                           AttentionPass pass, const Overrides& overrides);
};
std::string text_of(const FlashSimtPlan& plan);

// The kernels of simt.glsl have one list of constants. Those that come from the plan decide their shared memory.
using SimtSpec = FlashAttnFwdSimtSpec;
void set_plan(SimtSpec& spec, const SimtShape& shape, int result_columns);
void set_call(SimtSpec& spec, const AttentionCall& call, const FlashSimtPlan& plan, AttentionPass pass,
              const AttentionOperands& operands, const DsMode& mode);

void launch_forward(const AttentionCall& call, const FlashSimtPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp);
void launch_dq(const Backward& backward, const FlashSimtPlan& plan);
void launch_dkdv(const Backward& backward, const FlashSimtPlan& plan);

}  // namespace aule::ops
