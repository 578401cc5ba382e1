#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Roots of 1 + rho sum z^2 / (d - x), one between each two poles and one behind the last, by bisection of the bits of
// their distance from the nearer pole: that always ends at the last bit, and differences of poles and roots are exact
// to a rounding. An invocation has a root. `turns` of the halvings are a launch's, from the first one at turn 0 on.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "eigen/tridiagonal_merge.glsl"

#ifdef C_double
#define BITS uint64_t
BITS bits_of(R x) { return packUint2x32(unpackDouble2x32(x)); }
R of_bits(BITS x) { return packDouble2x32(unpackUint2x32(x)); }
#else
#define BITS uint
BITS bits_of(R x) { return floatBitsToUint(x); }
R of_bits(BITS x) { return uintBitsToFloat(x); }
#endif
const R LEAST = R(1e-30);  // below what z lets a root come near to a pole

// The sum at origin + x.
R sum_at(uint base, uint poles, R origin, R x) {
  R sum = R(0);
  for (uint i = base; i < base + poles; ++i) {
    const R z = number(Z, i);
    sum += z * z / distance_to(number(POLE, i), origin, x);
  }
  return sum;
}

void main() {
  const uint64_t root_ = linear_invocation();
  if (root_ >= uint64_t(p.total)) return;
  const uint at = uint(root_), merge = at / p.size, base = merge * p.size, i = at - base, poles = poles_of(merge);
  if (i >= poles) return;
  const R rho = rho_of(merge);
  const bool is_last = i + 1u == poles;
  R origin, side = R(1);
  BITS below = bits_of(LEAST), above;
  if (p.turn == 0u) {
    origin = number(POLE, at);
    const R far = is_last ? rho * (R(1) + R(16) * EPS) : (number(POLE, at + 1u) - origin) * R(0.5);
    if (!is_last && R(1) + rho * sum_at(base, poles, origin, far) < R(0)) origin = number(POLE, at + 1u);
    above = bits_of(max(far, LEAST));
    put_number(ORIGIN, at, origin);
  } else {
    origin = number(ORIGIN, at);
    below = bits_of(number(BELOW, at));
    above = bits_of(number(ABOVE, at));
  }
  if (origin != number(POLE, at)) side = R(-1);
  for (uint turn = 0u; turn < p.turns && below + 1 < above; ++turn) {
    const BITS middle = below + (above - below) / 2;
    const bool is_negative = R(1) + rho * sum_at(base, poles, origin, side * of_bits(middle)) < R(0);
    if (is_negative == (side > R(0))) below = middle;
    else above = middle;
  }
  put_number(BELOW, at, of_bits(below));
  put_number(ABOVE, at, of_bits(above));
  RealRef(p.joined).v[at] = origin + side * of_bits(above);
}
