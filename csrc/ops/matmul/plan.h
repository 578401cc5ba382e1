// Which kernel multiplies two matrices, and how it is cut. A pure function of shapes, strides and the device.
#pragma once
#include <cstdint>

#include "core/caps.h"
#include "kernels/launch.h"

namespace aule::ops {

// One operand as the kernels see it: strides in elements. `row` runs along m (a, c, out) or k (b), `col` along k (a) or
// n.
struct MatrixView {
  uint64_t address = 0;
  int64_t batch = 0, row = 0, col = 0;
  MatrixView transposed() const { return {address, batch, col, row}; }
};

struct GemmProblem {
  uint32_t batches = 1, m = 0, n = 0, k = 0;
  MatrixView a, b, c, out;
  DType in = DType::f32, result = DType::f32;
  bool has_c = false;
  // out^T = b^T a^T
  GemmProblem transposed() const {
    return {batches, n, m, k, b.transposed(), a.transposed(), c.transposed(), out.transposed(), in, result, has_c};
  }
};

struct GemmPlan {
  enum class Kernel : uint8_t {
    tiles,   // gemm.comp: shared memory, 64 x 64
    vector,  // gemv.comp: at most 4 rows
    lanes,   // gemm_lanes.comp: subgroup of 8, no barrier
    chunks,  // gemm_chunks.comp: the same, `step` of k a launch, sizes that divide
    scalar,  // gemm_scalar.comp: 64-bit arithmetic
  } kernel = Kernel::tiles;
  bool swap = false;              // compute out^T = b^T a^T
  uint32_t rows = 64, cols = 64;  // of out per workgroup
  int a_pair = 0, b_pair = 0;     // lanes: which neighbours one load brings; vector: b_pair 1 when b lies along k;
                                  // chunks: A_UNIT and B_UNIT
  int out_pair = 0;               // chunks: neighbours along n are stored together
  uint32_t step = 0, k_rest = 0, n_rest = 0;  // chunks: k_rest of k and n_rest columns are left for another kernel
  Grid grid;
};

GemmPlan gemm_plan(const GemmProblem& problem, const Caps& caps);

}  // namespace aule::ops
