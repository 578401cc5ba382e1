#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// The matrix that Jacobi's rotations begin with, and its scale, a power of two near the largest element:
//   HERMITIAN 0: w = a^H / scale of an upper triangle a (what stands below it is not read), [n, n];
//   HERMITIAN 1: h = a / scale, of one triangle of a Hermitian matrix, and w = h, SHIFTED 1: w = h + s I. s = 1.5 |h|_F
//   makes all eigenvalues positive and apart from 0, so that the columns of w V are orthogonal just where V has the
//   eigenvectors.
// STEP 0: a workgroup has a matrix. Several have one, in two launches: STEP 1: the largest element that each reads;
// 2: what they write, not SHIFTED. w and h are column-major and dense.
layout(constant_id = 0) const int LOCAL = 64;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HERMITIAN = false;
layout(constant_id = 2) const bool UPPER = false;  // the triangle that is read, if HERMITIAN
layout(constant_id = 3) const bool SHIFTED = false;
layout(constant_id = 4) const int STEP = 0;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t a, w, h, scale;
  uint64_t largest;  // [batches, groups]
  int64_t a_batch;
  uint a_column, n, groups;  // of a matrix
};
#include "common/params.glsl"

#include "eigen/all_of.glsl"

C source(uint64_t origin, uint i, uint j) {
  ScalarRef a = ScalarRef(origin);
  if (!HERMITIAN) return j <= i ? conjugate(a.v[i * p.a_column + j]) : C(0);
  if (i == j) return from_real(real_part(a.v[i * p.a_column + i]));
  const bool is_stored = UPPER == (i < j);
  return is_stored ? a.v[j * p.a_column + i] : conjugate(a.v[i * p.a_column + j]);
}

// Near x > 0, by comparisons: it is a double too.
R power_of_two(R x) {
  R r = R(1);
  for (int i = 0; i > LEAST_EXPONENT && x / r < R(1); --i) r *= R(0.5);
  for (int i = 0; i < -LEAST_EXPONENT && x / r > R(2); ++i) r *= R(2);
  return r;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, groups = STEP == 0 ? 1u : p.groups, count = p.n * p.n;
  const uint batch = linear_group() / groups, group = linear_group() % groups;
  const uint first = group * uint(LOCAL) + lane, step = groups * uint(LOCAL);
  const uint64_t origin = p.a + uint64_t(batch) * uint64_t(p.a_batch) * uint64_t(C_BYTES);
  const uint64_t skipped = uint64_t(batch) * uint64_t(count) * uint64_t(C_BYTES);
  RealRef largest = RealRef(p.largest + uint64_t(batch) * uint64_t(groups) * uint64_t(R_BYTES));
  R most = R(0);
  if (STEP == 2) {
    for (uint g = lane; g < groups; g += uint(LOCAL)) most = max(most, largest.v[g]);
  } else {
    for (uint e = first; e < count; e += step) most = max(most, largest_part(source(origin, e % p.n, e / p.n)));
  }
  most = all_of(most, false);
  if (STEP == 1) {
    if (lane == 0u) largest.v[group] = most;
    return;
  }
  R scale = R(1);
  if (most > R(0) && most < R(1) / R(0)) scale = power_of_two(most);
  R squares = R(0);
  for (uint e = first; e < count; e += step) {
    const C x = source(origin, e % p.n, e / p.n) / scale;
    if (SHIFTED) squares += square(x);
    ScalarRef(p.w + skipped).v[e] = x;
    if (HERMITIAN) ScalarRef(p.h + skipped).v[e] = x;
  }
  if (first == 0u) RealRef(p.scale).v[batch] = scale;
  if (!SHIFTED) return;
  const R norm = sqrt(all_of(squares, true));
  const R shift = norm > R(0) ? norm * R(1.5) : R(1);
  for (uint i = lane; i < p.n; i += uint(LOCAL)) {
    const uint e = i * p.n + i;
    ScalarRef(p.w + skipped).v[e] = source(origin, i, i) / scale + from_real(shift);
  }
}
