// Family splitkv: few queries over many keys, split along the keys, heads / kv_heads * q_len <= 16. Its last workgroup
// combines the splits.
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

struct FlashSplitKvPlan {
  int local = 0;                             // invocations of a workgroup
  int lanes = 0;                             // of a subgroup that share keys and query rows
  int rows = 0;                              // query rows of a subgroup
  int subgroups = 1;                         // that have query rows of their own
  int keys_per_lane = 0;                     // in flight
  int rows_per_pass = 0;                     // that are combined at a time
  int splits = 1;                            // workgroups that share a sequence's keys
  static constexpr bool kReadsLists = true;  // of the lengths of sequences, as the caller has them

  // Whether the family is asked for a plan where the override attention_variant, `asked`, names another one, or none.
  static bool is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked);
  // Nothing where the family does not serve the problem on this device.
  static std::optional<FlashSplitKvPlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                              AttentionPass pass, const Overrides& overrides);
};
std::string text_of(const FlashSplitKvPlan& plan);

void launch_forward(const AttentionCall& call, const FlashSplitKvPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp);

}  // namespace aule::ops
