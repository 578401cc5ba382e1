#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// Sorts the values of a matrix, times its scale, and its columns with them: a value's place is the number of those
// before it. NaNs go where the largest go. A workgroup has some columns, and LANES invocations count for each.
// Column-major, dense.
layout(constant_id = 0) const int LOCAL = 32;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool DESCENDING = false;
layout(constant_id = 2) const bool HAS_VECTORS = true;
layout(constant_id = 3) const int LANES = 1;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t values, scale, vectors;
  uint64_t sorted_values, sorted_vectors;
  uint rows, n;
};
#include "common/params.glsl"

const uint COLUMNS = uint(LOCAL / LANES);
shared uint counts[LOCAL];
shared uint places[COLUMNS];

R key(R x) { return isnan(x) ? R(1) / R(0) : x; }

void main() {
  const uint groups = (p.n + COLUMNS - 1u) / COLUMNS, batch = linear_group() / groups;
  const uint base = linear_group() % groups * COLUMNS, lane = gl_LocalInvocationID.x, i = base + lane / uint(LANES);
  const R scale = RealRef(p.scale).v[batch];
  const uint64_t before = uint64_t(batch) * uint64_t(p.n);
  RealRef values = RealRef(p.values + before * uint64_t(R_BYTES));
  RealRef sorted = RealRef(p.sorted_values + before * uint64_t(R_BYTES));
  const uint64_t skipped = before * uint64_t(p.rows * C_BYTES);
  uint count = 0u;
  if (i < p.n) {
    const R mine = key(values.v[i]);
    for (uint j = lane % uint(LANES); j < p.n; j += uint(LANES)) {
      const R other = key(values.v[j]);
      const bool is_before = DESCENDING ? other > mine : other < mine;
      if (is_before || (other == mine && j < i)) ++count;
    }
  }
  counts[lane] = count;
  barrier();  // counts are there
  if (lane % uint(LANES) == 0u && i < p.n) {
    for (uint l = 1u; l < uint(LANES); ++l) count += counts[lane + l];
    sorted.v[count] = values.v[i] * scale;
    places[lane / uint(LANES)] = count;
  }
  if (!HAS_VECTORS) return;
  barrier();  // places are there
  const uint elems = min(COLUMNS, p.n - base) * p.rows;
  for (uint e = lane; e < elems; e += uint(LOCAL))
    ScalarRef(p.sorted_vectors + skipped).v[places[e / p.rows] * p.rows + e % p.rows] =
        ScalarRef(p.vectors + skipped).v[base * p.rows + e];
}
