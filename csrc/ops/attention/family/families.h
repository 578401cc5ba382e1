// All families of attention's kernels, and a plan of one of them.
#pragma once
#include <variant>

#include "core/environment.h"  // it reads families.def, too, which must not happen below

#define ATTENTION_FAMILY_HEADERS
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY_HEADERS

namespace aule::ops {

template <class, class... Plans>
using VariantOfTail = std::variant<Plans...>;  // families.def has a comma before each plan

// clang-format off
using AttentionPlan = VariantOfTail<void
#define ATTENTION_FAMILY(name, Plan) , Plan
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY
>;
// clang-format on

}  // namespace aule::ops
