// Cooperative matrices of a device: the shape to use for a 16-bit dtype, and where lanes keep elements, found by
// running shaders/coopmat/coopmat_layout.comp once per device and dtype. Kernels take both as specialization constants.
#pragma once
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "kernels/launch.h"
#include "ops/coopmat/probe.h"

namespace aule::ops {

// Waits for the device on its first call. Float16 or bfloat16 only.
const MatrixLayout& matrix_layout(int device, DType dtype);

// The words of a MatrixProbe that stand for the device's answer, for drivers that compile and execute nothing, and for
// tests. Read like an answer. Throws where the layout was asked for before: plans were made with it.
void state_matrix_probe(int device, DType dtype, std::vector<uint32_t> words);

}  // namespace aule::ops
