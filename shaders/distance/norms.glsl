// A p-norm in steps, and its slope: for distances.comp and distances_backward.comp, which have declared NORM.
#include "common/float_bits.glsl"
#include "common/real.glsl"

#define NORM_OP(code, name) const int NORM_##name = code;
#include "distance/norm_ops.def"

// pow of no negative number; some drivers' pow loses a NaN.
REAL power_of(REAL x, REAL power) { return is_nan(x) || x == REAL(0) ? x : pow(x, power); }

// The sum or maximum so far with one more difference, which is not negative; the norm, of all.
REAL norm_step(REAL sum, REAL d, REAL power) {
  switch (NORM) {
    case NORM_zero: return sum + REAL(d != REAL(0) ? 1 : 0);
    case NORM_one: return sum + d;
    case NORM_two: return sum + d * d;
    case NORM_inf: return d > sum ? d : sum;  // passes over a NaN, as in PyTorch
    default: return sum + power_of(d, power);
  }
}
REAL norm_end(REAL sum, REAL power) {
  if (NORM == NORM_two) return sqrt(sum);
  if (NORM == NORM_any) return power_of(sum, REAL(1) / power);
  return sum;
}

// As a distance is stored.
REAL rounded(REAL x) {
#ifndef C_double
  if (DTYPE == AULE_DT_F16) return float(float16_t(x));
  if (DTYPE == AULE_DT_BF16) return bf16_to_float(float_to_bf16(x));
#endif
  return x;
}
// Of the norm `distance`, by the difference d.
REAL norm_slope(REAL d, REAL distance, REAL power) {
  const REAL s = REAL(d > REAL(0) ? 1 : d < REAL(0) ? -1 : 0), size = abs(d);
  switch (NORM) {
    case NORM_zero: return REAL(0);
    case NORM_one: return s;
    case NORM_two: return distance == REAL(0) ? REAL(0) : d / distance;
    case NORM_inf: return rounded(size) == distance ? s : REAL(0);
    default: return distance == REAL(0) || size == REAL(0) ? REAL(0) : s * power_of(size / distance, power - REAL(1));
  }
}
