// Plans of attention: the kernel family that serves a problem, and its sizes. Pure: a function of a profile, a problem
// and overrides, which reads no device, file or variable. test/plans/test_attention_plan.py has a table of plans. The
// families and their order are family/families.def.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ops/attention/family/families.h"

namespace aule::ops {

// Nothing if no kernel fits the device. The override attention_variant asks for one family; one that cannot serve
// the problem is passed over.
std::optional<AttentionPlan> plan_attention(const DeviceProfile& profile, const AttentionProblem& problem,
                                            AttentionPass pass, const Overrides& overrides);
// Whether some kernel serves these head sizes: every device has room for the smallest shapes.
constexpr bool servable(int64_t head_dim, int64_t v_dim) {
  return head_dim >= 1 && head_dim <= kMaxHeadDim && v_dim >= 1 && v_dim <= kMaxHeadDim;
}

const std::vector<std::string>& attention_families();  // their names, in the order in which they are asked
const char* family_name(const AttentionPlan& plan);
std::string text_of(const AttentionPlan& plan);  // "family member=number ..."

// The plan's part, if it is of cooperative matrices, whatever is known of their layout.
const FlashCoopMatPlan* coopmat_of(const AttentionPlan& plan);
// Whether the forward reads the lengths of sequences as the caller has them, and needs no list of its own.
bool reads_lists(const AttentionPlan& plan);

}  // namespace aule::ops
