// Arithmetic of complex numbers as pairs T of the real type R: vec2 and float, dvec2 and double. Special values as
// PyTorch's CPU has them.
// Include after arithmetic.glsl.
#ifndef AULE_COMPLEX_MATH_GLSL
#define AULE_COMPLEX_MATH_GLSL
// The functions of R, which are written for an arithmetic type T.
#undef T
#ifdef C_dvec2
#define R double
#define C_double 1
#else
#define R float
#define C_float 1
#endif
#define T R
#include "pointwise/functions/math.glsl"
#include "pointwise/functions/math_special.glsl"
#include "pointwise/functions/functions.glsl"
#undef T
#ifdef C_dvec2
#include "pointwise/functions/complex_double.glsl"
#undef C_double
#define T dvec2
#define R_INF DINF
#define R_NAN DNAN
#define R_HUGE 6.0e153lf     // below sqrt(the largest number) / 2
#define R_SMALL 1.0e-140lf   // squares of numbers above have all digits
#define R_UP 5.260135901548374e210lf  // 2^700: squares of the smallest numbers times that are numbers, too
#define R_DOWN 1.9010915662951598e-211lf
#define R_EXP_LIMIT 700.0lf  // e^x is finite
#else
#undef C_float
#define T vec2
#define R_INF INF
#define R_NAN NAN
#define R_HUGE 6.0e18
#define R_SMALL 1.0e-14
#define R_UP 7.9228162514264338e28  // 2^96
#define R_DOWN 1.2621774483536189e-29
#define R_EXP_LIMIT 87.0
#endif
const T ONE = T(R(1), R(0));

bool c_true(T z) { return z.x != R(0) || z.y != R(0); }
bool c_isnan(T z) { return is_nan(z.x) || is_nan(z.y); }
bool c_equal(T z, T w) { return !c_isnan(z) && !c_isnan(w) && z.x == w.x && z.y == w.y; }
T c_conj(T z) { return T(z.x, -z.y); }
T times_i(T z) { return T(-z.y, z.x); }
T over_i(T z) { return T(z.y, -z.x); }

// Drivers make a 0 of 0 / 0 where they know the divisor.
R over_zero(R x) { return is_nan(x) || x == R(0) ? R_NAN : with_sign(R_INF, x); }
// Smith's division, as c10::complex has it.
T c_div(T z, T w) {
  if (abs(w.x) >= abs(w.y)) {
    if (w.x == R(0) && w.y == R(0)) return T(over_zero(z.x), over_zero(z.y));
    const R ratio = divide(w.y, w.x);
    precise R divisor = w.x + w.y * ratio;
    const R scale = divide(R(1), divisor);
    precise T r = T((z.x + z.y * ratio) * scale, (z.y - z.x * ratio) * scale);
    return r;
  }
  const R ratio = divide(w.x, w.y);
  precise R divisor = w.x * ratio + w.y;
  const R scale = divide(R(1), divisor);
  precise T r = T((z.x * ratio + z.y) * scale, (z.y * ratio - z.x) * scale);
  return r;
}
// The square root of x^2 + y^2, scaled where squares would leave the range.
R c_abs(T z) {
  const R a = abs(z.x), b = abs(z.y);
  if (is_inf(a) || is_inf(b)) return R_INF;
  if (is_nan(a) || is_nan(b)) return R_NAN;
  const R larger = a > b ? a : b;
  R up = R(1), down = R(1);
  if (larger > R_HUGE) up = R_DOWN, down = R_UP;
  if (larger < R_SMALL) up = R_UP, down = R_DOWN;
  const R u = a * up, v = b * up;
  return sqrt(u * u + v * v) * down;
}
R c_angle(T z) { return atan2_(z.y, z.x); }
T c_sgn(T z) {
  R size = c_abs(z);
  if (size < R_SMALL) {  // a subnormal size has few digits
    z *= R_UP;
    size = c_abs(z);
  }
  return size == R(0) ? T(R(0)) : T(divide(z.x, size), divide(z.y, size));
}
T c_lerp(T start, T end, T weight) {
  if (weight.x * weight.x + weight.y * weight.y < R(0.25)) return start + c_mul(weight, end - start);
  return end - c_mul(end - start, ONE - weight);
}
T c_sqrt(T z) {
  if (is_inf(z.y)) return T(R_INF, z.y);
  if (is_inf(z.x)) {
    const R other = is_nan(z.y) ? z.y : R(0);
    return z.x > R(0) ? T(z.x, is_nan(z.y) ? z.y : with_sign(R(0), z.y)) : T(other, with_sign(R_INF, z.y));
  }
  if (c_isnan(z)) return T(R_NAN);
  if (z.x == R(0) && z.y == R(0)) return T(R(0), z.y);
  R up = R(1), down = R(1);  // a quarter of the range up or down, by powers of 4
  const R larger = abs(z.x) > abs(z.y) ? abs(z.x) : abs(z.y);
  if (larger > R_HUGE) up = R_DOWN, down = sqrt_(R_UP);
  if (larger < R_SMALL) up = R_UP, down = sqrt_(R_DOWN);
  z *= up;
  const R t = sqrt_((abs(z.x) + c_abs(z)) * R(0.5)), other = abs(z.y) / (R(2) * t);
  return (z.x >= R(0) ? T(t, with_sign(other, z.y)) : T(other, with_sign(t, z.y))) * down;
}
// e^x (cos y, sin y), in two steps where e^x alone may overflow.
T c_polar_exp(R x, T circle) {
  if (x > R_EXP_LIMIT) {
    const R half_way = exp_(R(0.5) * x);
    return circle * half_way * half_way;
  }
  return circle * exp_(x);
}
T c_exp(T z) {
  if (z.y == R(0)) return T(exp_(z.x), z.y);
  if (is_inf(z.x) && (is_inf(z.y) || is_nan(z.y))) return z.x > R(0) ? T(z.x, R_NAN) : T(R(0));
  return c_polar_exp(z.x, T(cos_(z.y), sin_(z.y)));
}
#endif
