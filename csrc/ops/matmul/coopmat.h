// Products of 16-bit matrices on the matrix units (gemm_coopmat.comp): tile, staging of each operand, split of k.
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;
class TensorArgs;

// The order of elements for which kernels fill matrices element by element.
bool is_ordered(const MatrixLayout& layout);

std::optional<GemmPlan> plan_coopmat(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g);
// The same plan for rows of out that start anywhere, if its kernel can store them as vec8s.
std::optional<CoopMatPlan> with_row_classes(const CoopMatPlan& plan, const GemmProblem& g);
void launch_coopmat(const GemmCall& call, const CoopMatPlan& plan);
// The sums of its splits alone, [splits, batches, m, n], to `sums`, which `args` has. The plan shares no tiles.
void launch_coopmat_sums(const GemmCall& call, const CoopMatPlan& plan, uint64_t sums, const TensorArgs& args);

}  // namespace aule::ops
