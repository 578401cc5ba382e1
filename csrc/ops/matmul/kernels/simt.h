// Products by multiply-adds on devices with real shared memory (gemm_simt.comp, gemm_simt_large.comp,
// gemm_simt_splits.comp), and in 64-bit arithmetic (gemm_scalar.comp).
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;
class TensorArgs;

GemmPlan plan_scalar(const GemmProblem& g);
GemmPlan plan_simt(const GemmProblem& g);
std::optional<GemmPlan> plan_simt_large(const DeviceProfile& profile, const GemmProblem& g);
// Nothing where it would have fewer than `least_splits`, or several and no kernel that adds them.
std::optional<GemmPlan> plan_simt_splits(const DeviceProfile& profile, const GemmProblem& problem,
                                         uint32_t least_splits);
void launch_scalar(const GemmCall& call, const ScalarPlan& plan);
void launch_simt(const GemmCall& call, const SimtPlan& plan);
void launch_simt_large(const GemmCall& call, const SimtLargePlan& plan);
void launch_simt_splits(const GemmCall& call, const SimtSplitsPlan& plan);
// Its sums alone, [splits, batches, m, n], to `sums`, which `args` has.
void launch_simt_split_sums(const GemmCall& call, const SimtSplitsPlan& plan, uint64_t sums, const TensorArgs& args);

}  // namespace aule::ops
