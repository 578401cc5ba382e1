// Products along more of k than one invocation may walk (loop_limit.h): in slices of k, of which each adds to the sum
// of those before, in float32 where the operands have 16 bits.
#pragma once
#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

LongKPlan plan_long_k(const Caps& caps);
void launch_long_k(const GemmCall& call, const LongKPlan& plan);

}  // namespace aule::ops
