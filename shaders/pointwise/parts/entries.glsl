// Names that the entries of *_ops.def may use: functions of the arithmetic type T, scalars s0, s1, s2.
#include "pointwise/functions/math.glsl"
#include "pointwise/functions/math_special.glsl"
#include "pointwise/functions/functions.glsl"
T s0, s1, s2;  // an op's Scalar arguments

#ifdef C_float
// The next among the numbers of float16 or bfloat16, if dt is one of them.
float nextafter_(float x, float y, int dt) {
  if (is_nan(x) || is_nan(y)) return NAN;
  if (dt == AULE_DT_F16) return unpackHalf2x16(next_bits(float_to_f16(x), float_to_f16(y), 0x8000u)).x;
  if (dt == AULE_DT_BF16) return bf16_to_float(next_bits(float_to_bf16(x), float_to_bf16(y), 0x8000u));
  return nextafter_(x, y);
}
#endif

#ifdef AULE_REAL
// logit's eps is s0. A negative one means no eps.
T clamp_logit(T x) { return s0 < T(0) ? x : (x < s0 ? s0 : (x > T(1) - s0 ? T(1) - s0 : x)); }
T logit_grad(T g, T x) {
  if (s0 < T(0)) return x < T(0) || x > T(1) ? T(NAN) : g / (x * (T(1) - x));
  return x < s0 || x > T(1) - s0 ? T(0) : g / (x * (T(1) - x));
}
#endif
