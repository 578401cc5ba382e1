#pragma aule params wide
// out = alpha * (sum over splits of a[split]) + beta * c: the second half of a product whose k was shared between
// workgroups. a: float32 [splits][batches][m][n]. An invocation makes 4 columns of a row.
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE uint64_t residual; uint splits;
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool HAS_C = false;
layout(constant_id = 2) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 3) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "matmul/epilogue.glsl"

void main() {
  const uint per_row = (p.n + 3) / 4;
  const uint64_t i = linear_invocation(), row_of_all = i / per_row;
  if (row_of_all >= uint64_t(p.batches) * p.m) return;
  const uint col = uint(i % per_row) * 4, batch = uint(row_of_all / p.m), row = uint(row_of_all % p.m);
  const uint64_t one = uint64_t(p.batches) * p.m * p.n * 4;
  uint64_t at = p.a + (row_of_all * p.n + col) * 4;
  vec4 sum = vec4(0.0);
  if (p.n % 4 == 0) {
    for (uint s = 0; s < p.splits; ++s) {
      sum += F32x4Ref(at).v;
      at += one;
    }
  } else {
    for (uint s = 0; s < p.splits; ++s) {
      [[unroll]] for (int x = 0; x < 4; ++x)
        if (col + x < p.n) sum[x] += F32Ref(at + 4 * x).v;
      at += one;
    }
  }
  [[unroll]] for (int x = 0; x < 4; ++x) {
    if (col + x < p.n) finish(batch, row, col + x, sum[x]);
  }
}
