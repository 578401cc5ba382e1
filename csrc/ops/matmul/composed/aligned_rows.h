// Products on matrix units that are made of others: in two parts, and those whose rows start between 16-byte
// boundaries: of copies whose rows do not, if what the copies take is less than what loads and stores of single
// elements do.
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

// `today` has a CoopMatPlan for the problem.
std::optional<GemmPlan> plan_aligned_rows(const DeviceProfile& profile, const GemmProblem& problem,
                                          const GemmPlan& today, const Overrides& overrides);
std::optional<GemmPlan> plan_parts(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& problem,
                                   const GemmPlan& today, const Overrides& overrides);
void launch_parts(const GemmCall& call, const PartsPlan& plan);
void launch_aligned_rows(const GemmCall& call, const AlignedRowsPlan& plan);

}  // namespace aule::ops
