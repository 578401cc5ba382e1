// float32 products on matrix units that take 16-bit operands: what torch.set_float32_matmul_precision("high" |
// "medium") asks for. "high": three products of two pieces each, about 16 bits; "medium": one product of bfloat16. An
// infinite operand may give NaN under "high".
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

// Whether a float32 product may be made of 16-bit ones at all on such a device.
bool may_take_bf16x3(const Caps& caps);
// The precision that torch.backends.fp32_precision allows, where it says anything.
std::optional<Float32Precision> asked_float32_precision();

std::optional<GemmPlan> plan_bf16x3(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                                    const Overrides& overrides);
void launch_bf16x3(const GemmCall& call, const Bf16x3Plan& plan);

}  // namespace aule::ops
