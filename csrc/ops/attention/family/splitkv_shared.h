// Family splitkv_shared: the same work as splitkv with barriers between keys and half as fast, for devices whose push
// constants are few. A second kernel combines the splits.
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

struct FlashSplitKvSharedPlan {
  int local = 0, rows = 0, splits = 1;
  int combine_local = 0;                     // invocations of a workgroup of flash_attn_splitkv_combine
  static constexpr bool kReadsLists = true;  // of the lengths of sequences, as the caller has them

  // Whether the family is asked for a plan where the override attention_variant, `asked`, names another one, or none.
  static bool is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked);
  // Nothing where the family does not serve the problem on this device.
  static std::optional<FlashSplitKvSharedPlan> make(const DeviceProfile& profile, const AttentionProblem& problem,
                                                    AttentionPass pass, const Overrides& overrides);
};
std::string text_of(const FlashSplitKvSharedPlan& plan);

void launch_forward(const AttentionCall& call, const FlashSplitKvSharedPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp);

}  // namespace aule::ops
