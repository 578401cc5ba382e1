#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_x[b, i, k] = sum over j of grad[b, i, j] * slope of the p-norm by x[b, i, k] - y[b, j, k]; PAIRS: over the other
// points of one set, whose pairs i < j are in order. One invocation per feature of a point: deterministic.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int NORM = 2;
layout(constant_id = 2) const bool PAIRS = false;
struct Params {
  uint64_t grad, x, y, distances, grad_x;
  uint64_t n;
  uint64_t power_bits;  // of a double
  uint rows, columns, features;
  float power;
};
#include "common/params.glsl"
#include "distance/norms.glsl"

#ifdef C_double
#define POWER packDouble2x32(unpackUint2x32(p.power_bits))
#else
#define POWER p.power
#endif

uint64_t pair_at(uint64_t i, uint64_t j) {
  const uint64_t low = i < j ? i : j, high = i < j ? j : i;
  return low * (uint64_t(2) * uint64_t(p.rows) - low - uint64_t(1)) / uint64_t(2) + high - low - uint64_t(1);
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint64_t i = id / uint64_t(p.features), k = id - i * uint64_t(p.features);
  const uint64_t first = PAIRS ? uint64_t(0) : i / uint64_t(p.rows) * uint64_t(p.columns);
  const REAL x = LOAD(p.x, id, DTYPE);
  REAL sum = REAL(0);
  for (uint at = 0u; at < p.columns; ++at) {
    const uint64_t j = uint64_t(at);
    if (PAIRS && i == j) continue;
    const uint64_t pair = PAIRS ? pair_at(i, j) : i * uint64_t(p.columns) + j;
    const REAL d = x - LOAD(p.y, (first + j) * uint64_t(p.features) + k, DTYPE);
    sum += LOAD(p.grad, pair, DTYPE) * norm_slope(d, LOAD(p.distances, pair, DTYPE), POWER);
  }
  STORE(p.grad_x, id, DTYPE, sum);
}
