// int8 matrices to an int32 product (gemm_int8.comp): on matrix units that take them, else by packed dot products.
#pragma once
#include <optional>

#include "ops/matmul/route.h"

namespace aule::ops {

struct GemmCall;

std::optional<GemmPlan> plan_int8(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g);
void launch_int8(const GemmCall& call, const Int8Plan& plan);

// Bit i: tile i (Int8Plan::tile_index) was tried on this device and gave a wrong product.
uint32_t refuted_int8_tiles(int device);
// Whether the plan's tile is exact on the device, which the first call for it tries. Waits for the device then.
bool is_exact_tile(int device, const Int8Plan& plan);

}  // namespace aule::ops
