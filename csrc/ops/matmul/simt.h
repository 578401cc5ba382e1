// Products by multiply-adds on devices with real shared memory (gemm_simt.comp, gemm_simt_large.comp), and in 64-bit
// arithmetic (gemm_scalar.comp).
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

GemmPlan plan_scalar(const GemmProblem& g);
GemmPlan plan_simt(const GemmProblem& g);
std::optional<GemmPlan> plan_simt_large(const DeviceProfile& profile, const GemmProblem& g);
void launch_scalar(const GemmCall& call, const ScalarPlan& plan);
void launch_simt(const GemmCall& call, const SimtPlan& plan);
void launch_simt_large(const GemmCall& call, const SimtLargePlan& plan);

}  // namespace aule::ops
