// Products of few rows at memory speed: gemv.comp, gemv_wide.comp, gemv_coopmat.comp.
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

// By 16-byte loads: gemv_wide.comp, gemv_coopmat.comp.
std::optional<GemmPlan> plan_few_rows(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g);
// At most 4 rows or columns, of any strides: gemv.comp.
GemmPlan plan_gemv(const GemmProblem& g);
void launch_gemv(const GemmCall& call, const GemvPlan& plan);
void launch_gemv_wide(const GemmCall& call, const GemvWidePlan& plan);
void launch_gemv_coopmat(const GemmCall& call, const GemvCoopMatPlan& plan);

}  // namespace aule::ops
