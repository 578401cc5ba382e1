#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[r, n] = alpha * sum_j values[j] * dense[columns[j], n] + beta * added[r, n]  for begins[r] <= j < begins[r + 1]
// A compressed sparse matrix by a dense one. An invocation owns an element; neighbours are adjacent along n, so that
// they read the same values and neighbouring elements of dense. Deterministic.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool HAS_ADDED = false;
struct Params {
  uint64_t begins, columns;  // int64
  uint64_t values, dense, added, out_;
  uint64_t alpha, beta;  // bits of REAL
  int64_t dense_k, dense_n;  // strides
  uint64_t m, n, k, nnz;
};
#include "common/params.glsl"
#include "sparse/real_bits.glsl"

int64_t begin_of(uint64_t row) { return limited(I64Ref(p.begins + row * 8).v, int64_t(0), int64_t(p.nnz)); }

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.m * p.n) return;
  const uint64_t row = id / p.n, col = id - row * p.n;
  const int64_t end = begin_of(row + 1);
  REAL sum = REAL(0);
  for (int64_t j = begin_of(row); j < end; ++j) {
    const int64_t k = I64Ref(p.columns + uint64_t(j) * 8).v;
    if (k >= 0 && k < int64_t(p.k))  // an unchecked tensor may have any index
      sum += LOAD(p.values, uint64_t(j), DTYPE) *
             LOAD(p.dense, uint64_t(k * p.dense_k + int64_t(col) * p.dense_n), DTYPE);
  }
  sum *= real_of(p.alpha);
  if (HAS_ADDED) sum += real_of(p.beta) * LOAD(p.added, id, DTYPE);
  STORE(p.out_, id, DTYPE, sum);
}
