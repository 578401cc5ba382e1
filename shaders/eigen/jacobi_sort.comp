#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// Sorts the values of a matrix, times its scale, and its columns with them: a value's place is the number of those
// before it. NaNs go where the largest go. A workgroup has a matrix. Column-major, dense.
layout(constant_id = 0) const int LOCAL = 32;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool DESCENDING = false;
layout(constant_id = 2) const bool HAS_VECTORS = true;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t values, scale, vectors;
  uint64_t sorted_values, sorted_vectors;
  uint rows, n;
};
#include "common/params.glsl"

shared uint places[LOCAL];

R key(R x) { return isnan(x) ? R(1) / R(0) : x; }

void main() {
  const uint lane = gl_LocalInvocationID.x, batch = linear_group();
  const R scale = RealRef(p.scale).v[batch];
  const uint64_t before = uint64_t(batch) * uint64_t(p.n);
  RealRef values = RealRef(p.values + before * uint64_t(R_BYTES));
  RealRef sorted = RealRef(p.sorted_values + before * uint64_t(R_BYTES));
  const uint64_t skipped = before * uint64_t(p.rows * C_BYTES);
  for (uint base = 0u; base < p.n; base += uint(LOCAL)) {
    const uint i = base + lane;
    if (i < p.n) {
      const R mine = key(values.v[i]);
      uint place = 0u;
      for (uint j = 0u; j < p.n; ++j) {
        const R other = key(values.v[j]);
        const bool is_before = DESCENDING ? other > mine : other < mine;
        if (is_before || (other == mine && j < i)) ++place;
      }
      sorted.v[place] = values.v[i] * scale;
      places[lane] = place;
    }
    if (HAS_VECTORS) {
      barrier();  // places are there
      const uint elems = min(uint(LOCAL), p.n - base) * p.rows;
      for (uint e = lane; e < elems; e += uint(LOCAL))
        ScalarRef(p.sorted_vectors + skipped).v[places[e / p.rows] * p.rows + e % p.rows] =
            ScalarRef(p.vectors + skipped).v[base * p.rows + e];
      barrier();  // places are read
    }
  }
}
