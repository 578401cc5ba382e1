#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// Of each column, RAYLEIGH 0: its 2-norm, and the column divided by it, or by 1 if it is 0. RAYLEIGH 1: the real part
// of v^H y / v^H v for the columns of v and y. A workgroup has a column. All matrices are one, column-major and dense.
layout(local_size_x = 32) in;
layout(constant_id = 0) const bool RAYLEIGH = false;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t v, y, values;
  uint rows;
};
#include "common/params.glsl"

shared R partials[64];

void main() {
  const uint lane = gl_LocalInvocationID.x, column = linear_group();
  const uint64_t skipped = uint64_t(column) * uint64_t(p.rows * C_BYTES);
  ScalarRef v = ScalarRef(p.v + skipped), y = ScalarRef(p.y + skipped);
  R vv = R(0), vy = R(0);
  for (uint i = lane; i < p.rows; i += 32u) {
    vv += square(v.v[i]);
    if (RAYLEIGH) vy += real_part(mul_conj(v.v[i], y.v[i]));
  }
  partials[lane] = vv;
  partials[32u + lane] = vy;
  barrier();  // partials are there
  vv = R(0);
  vy = R(0);
  for (uint l = 0u; l < 32u; ++l) {
    vv += partials[l];
    vy += partials[32u + l];
  }
  const R norm = sqrt(vv);
  if (lane == 0u) RealRef(p.values).v[column] = RAYLEIGH ? vy / vv : norm;
  if (RAYLEIGH) return;
  const R divisor = norm > R(0) ? norm : R(1);
  for (uint i = lane; i < p.rows; i += 32u) v.v[i] = v.v[i] / divisor;
}
