#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The eigenvectors z[j] / (d[j] - x) of D + rho z z^T, unit vectors for what was deflated, and the rotations of that,
// the last one first. Rows are of the columns of both blocks. An invocation has a column.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "eigen/tridiagonal_merge.glsl"

R component(uint i, R origin, R offset) {
  return number(WEIGHT, i) / distance_to(number(POLE, i), origin, offset);
}

void main() {
  const uint64_t invocation = linear_invocation();
  if (invocation >= uint64_t(p.total)) return;
  const uint at = uint(invocation), merge = at / p.size, base = merge * p.size, column = at - base;
  const uint poles = poles_of(merge);
  RealRef inner = RealRef(p.inner + uint64_t(merge) * uint64_t(p.size) * uint64_t(p.size * R_BYTES));
  R origin = R(0), offset = R(0), inverse = R(1);
  if (column < poles) {
    origin = number(ORIGIN, at);
    offset = origin == number(POLE, at) ? number(ABOVE, at) : -number(ABOVE, at);
    R squares = R(0);
    for (uint i = 0u; i < poles; ++i) {
      const R x = component(base + i, origin, offset);
      squares += x * x;
    }
    inverse = R(1) / root(squares);
  }
  for (uint i = 0u; i < p.size; ++i) {
    R x = i == column ? R(1) : R(0);
    if (column < poles) x = i < poles ? component(base + i, origin, offset) * inverse : R(0);
    inner.v[place(ORDER, base + i) * p.size + column] = x;
  }
  for (uint i = rotations_of(merge); i-- > 0u;) {
    const uint first = place(FIRST, base + i) * p.size + column, second = place(SECOND, base + i) * p.size + column;
    const R c = number(COSINE, base + i), s = number(SINE, base + i), x = inner.v[first], y = inner.v[second];
    inner.v[first] = c * x - s * y;
    inner.v[second] = s * x + c * y;
  }
}
