#include "ops/attention/plan.h"

namespace aule::ops {

std::optional<AttentionPlan> plan_attention(const DeviceProfile& profile, const AttentionProblem& asked,
                                            AttentionPass pass, const Overrides& overrides) {
  using V = AttentionVariant;
  if (!servable(asked.head_dim, asked.v_dim)) return {};
  const V variant = overrides.attention_variant;
  if (asked.int8) {  // few keys, too: another family needs a copy of them in the query's dtype
    if (variant != V::any && variant != V::splitkv) return {};
    return FlashSplitKvPlan::make(profile, asked, pass, overrides);
  }
  AttentionProblem problem = asked;
  if (problem.num_splits == 1) problem.q_len = problem.k_len = 1 << 16;  // one plan, whatever the other sequences are
#define ATTENTION_FAMILY(name, Plan)                                                   \
  if (variant == V::name || Plan::is_usual(profile, problem, variant)) {               \
    if (const auto plan = Plan::make(profile, problem, pass, overrides)) return *plan; \
  }
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY
  return {};
}

const std::vector<std::string>& attention_families() {
  static const std::vector<std::string> kNames = {
#define ATTENTION_FAMILY(name, Plan) #name,
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY
  };
  return kNames;
}

const char* family_name(const AttentionPlan& plan) { return attention_families()[plan.index()].c_str(); }

std::string text_of(const AttentionPlan& plan) {
  return family_name(plan) + std::visit([](const auto& own) { return text_of(own); }, plan);
}

const FlashCoopMatPlan* coopmat_of(const AttentionPlan& plan) {
  return std::visit(
      []<class Plan>(const Plan& own) -> const FlashCoopMatPlan* {
        if constexpr (std::is_base_of_v<FlashCoopMatPlan, Plan>)
          return &own;
        else
          return nullptr;
      },
      plan);
}

bool reads_lists(const AttentionPlan& plan) {
  return std::visit([]<class Plan>(const Plan&) { return requires { Plan::kReadsLists; }; }, plan);
}

}  // namespace aule::ops
