// Roots, quotients and magnitudes to a rounding, and the bounds of squares.
#ifndef AULE_LINALG_ROUNDED_GLSL
#define AULE_LINALG_ROUNDED_GLSL
#include "linalg/number.glsl"
#if defined(C_double) || defined(C_dvec2)
const int LEAST_EXPONENT = -1000;
const R MOST = 1.7976931348623157e308lf;
const R TINY = 1e-306lf;  // a little above the least normal number: its inverse is finite
const R SMALLEST = 1e-290lf, LARGEST = 1e290lf, EPS = 2.220446049250313e-16lf;  // SMALLEST and LARGEST: of squares
#else
const int LEAST_EXPONENT = -120;
const R MOST = 3.4028234e38;
const R TINY = 1e-37;
const R SMALLEST = 1e-30, LARGEST = 1e30, EPS = 1.1920929e-7;
#endif

// The root and the quotient to a rounding: a driver's own may be off by three, all to one side, and that adds up over
// rotations and reflections, which then stretch.
R root(R x) {
  const R r = sqrt(x);
  return x > SMALLEST && x < LARGEST ? r - fma(r, r, -x) / (R(2) * r) : r;
}
R quotient(R a, R b) {
  const R q = a / b;
  return fma(fma(-q, b, a), R(1) / b, q);
}

// sqrt(a^2 + b^2) for a, b >= 0, without overflow in between and to a rounding down to the least normal number. What is
// not finite is added, which keeps it.
R hypotenuse(R a, R b) {
  const R m = max(a, b), s = min(a, b);
  if (!(m > R(0) && m < MOST)) return m + s;
  const R unit = m < TINY * R(1 << 24) ? R(1 << 30) : m > R(1) / TINY ? R(1) / R(1 << 24) : R(1);
  const R q = quotient(s * unit, m * unit);
  return m * unit * root(fma(q, q, R(1))) / unit;
}

#if defined(C_vec2) || defined(C_dvec2)
R magnitude(C a) { return hypotenuse(abs(a.x), abs(a.y)); }
#else
R magnitude(C a) { return abs(a); }
#endif
#endif
