// Products on software devices: gemm_simd.comp and gemm_simd_unrolled.comp.
#pragma once
#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

GemmPlan plan_simd(const GemmProblem& g);
void launch_simd(const GemmCall& call, const SimdPlan& plan);
void launch_simd_unrolled(const GemmCall& call, const SimdUnrolledPlan& plan);

}  // namespace aule::ops
