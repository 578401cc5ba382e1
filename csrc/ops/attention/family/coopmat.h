// Family coopmat: cooperative matrices of known layout, 16-bit types, head sizes to 256, asked first of those for many
// queries. Family coopmat_opaque: the same with an unknown layout, where scores pass through shared memory.
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

struct FlashCoopMatPlan {
  bool opaque = false;     // the layout is unknown: scores pass through shared memory
  int local = 0;           // invocations of a workgroup
  int dim = 0, v_dim = 0;  // padded head sizes
  int row_blocks = 0, tile = 0, blocks_in_flight = 0, stages = 0;
  int role_split = 1;   // subgroups that share rows; 2: one has S, one dP, and each a result
  int from_global = 0;  // rows that pass from which stationary operands come straight from memory; 0: never
  int motion_barriers = 0;
  bool acc_is_a_operand = false;  // accumulators become A operands within a lane
  int block = 0;                  // rows of a workgroup
  // Blocks of a mask that hold a workgroup's rows and a tile whole are visited or skipped whole: no element asks its
  // mask. The forward has a list of those of a row, as long as `listed`.
  bool whole_blocks = false, skips_tiles = false;
  int listed = 0;
  bool unmodified_scores = false;  // no element's score changes before the softmax

  // Whether the family is asked for a plan where the override attention_variant, `asked`, names another one, or none.
  static bool is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked);
  // Nothing where the family does not serve the problem on this device.
  static std::optional<FlashCoopMatPlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                              AttentionPass pass, const Overrides& overrides);
};
struct FlashCoopMatOpaquePlan : FlashCoopMatPlan {
  static std::optional<FlashCoopMatOpaquePlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                                    AttentionPass pass, const Overrides& overrides);
};
std::string text_of(const FlashCoopMatPlan& plan);

// Whether the planner chooses tiles for unmodified scores: where they will be whole in a mask's blocks, too.
bool has_unmodified_tiles(const AttentionProblem& problem);

// The kernels of coopmat.glsl have one list of constants. Those that come from the plan decide their shared memory.
using CoopMatSpec = FlashAttnFwdCoopmatSpec;
void set_plan(CoopMatSpec& spec, const FlashCoopMatPlan& plan, const MatrixLayout& layout);
void set_call(CoopMatSpec& spec, const AttentionCall& call, const FlashCoopMatPlan& plan, AttentionPass pass,
              const AttentionOperands& operands, const DsMode& mode);

void launch_forward(const AttentionCall& call, const FlashCoopMatPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp);
void launch_dq(const Backward& backward, const FlashCoopMatPlan& plan);
void launch_dkdv(const Backward& backward, const FlashCoopMatPlan& plan);
// Both passes over a workspace of dS. False: not served, or no memory for it.
bool launch_with_ds_workspace(const Backward& backward, const FlashCoopMatPlan& dq_plan,
                              const FlashCoopMatPlan& dkdv_plan);

}  // namespace aule::ops
