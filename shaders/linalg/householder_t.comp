#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// T of a product of reflections I - V T V^H (LAPACK's larft, forward): T[j, j] = tau[j], and above it
// T[:j, j] = -tau[j] T[:j, :j] (V^H V)[:j, j]. An invocation has a row of T, which needs no other row. Row-major.
layout(local_size_x = 32) in;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t gram, tau, t;  // gram and t: [batch, n, n]
  uint n, tau_batch, batches;
};
#include "common/params.glsl"

void main() {
  const uint64_t row = linear_invocation();
  if (row >= uint64_t(p.batches) * uint64_t(p.n)) return;
  const uint batch = uint(row / uint64_t(p.n)), i = uint(row % uint64_t(p.n));
  const uint64_t skipped = uint64_t(batch) * uint64_t(p.n * p.n * C_BYTES);
  ScalarRef t = ScalarRef(p.t + skipped), gram = ScalarRef(p.gram + skipped);
  ScalarRef tau = ScalarRef(p.tau + uint64_t(batch) * uint64_t(p.tau_batch * C_BYTES));
  for (uint j = 0u; j < p.n; ++j) {
    C sum = C(0);
    for (uint l = i; l < j; ++l) sum += mul(t.v[i * p.n + l], gram.v[l * p.n + j]);
    t.v[i * p.n + j] = j < i ? C(0) : (j == i ? tau.v[j] : -mul(tau.v[j], sum));
  }
}
