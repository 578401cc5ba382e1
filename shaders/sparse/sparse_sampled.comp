#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[j] = alpha * sum_k a[rows[j], k] * b[k, columns[j]] + beta * values[j]
// The elements of a dense product at the places of a sparse matrix. An invocation owns one. Deterministic.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
struct Params {
  uint64_t rows, columns;  // int64
  uint64_t values, a, b, out_;
  uint64_t alpha, beta;  // bits of REAL
  int64_t a_m, a_k, b_k, b_n;  // strides
  uint m, n, k, nnz;
};
#include "common/params.glsl"
#include "sparse/real_bits.glsl"

void main() {
  const uint64_t j = linear_invocation();
  if (j >= uint64_t(p.nnz)) return;
  const int64_t row = I64Ref(p.rows + j * 8).v, col = I64Ref(p.columns + j * 8).v;
  REAL sum = REAL(0);
  if (row >= 0 && row < int64_t(p.m) && col >= 0 && col < int64_t(p.n))  // an unchecked tensor may have any index
    for (uint k = 0; k < p.k; ++k)
      sum += LOAD(p.a, uint64_t(row * p.a_m + int64_t(k) * p.a_k), DTYPE) *
             LOAD(p.b, uint64_t(int64_t(k) * p.b_k + col * p.b_n), DTYPE);
  STORE(p.out_, j, DTYPE, real_of(p.alpha) * sum + real_of(p.beta) * LOAD(p.values, j, DTYPE));
}
