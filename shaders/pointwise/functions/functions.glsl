// Functions of the arithmetic type T (C_float, C_double, C_int, C_int64) that math.glsl has in float32 alone or lacks.
// Include after math.glsl and math_special.glsl; once for each type where several are in use.
#undef AULE_REAL
#if defined(C_float)
#define AULE_REAL
float sqrt_(float x) { return sqrt(x); }
// x / y for all x and y. Vulkan promises its division for 2^-126 <= |y| <= 2^126 alone: beyond, drivers multiply by a
// reciprocal that is flushed to 0 or overflows. They may flush a subnormal operand, too, so it is read from its bits.
float divide(float x, float y) {
  const uint x_bits = floatBitsToUint(x) << 1, y_bits = floatBitsToUint(y) << 1;  // without their signs
  const bool is_x_subnormal = x_bits - 1u < 0x00ffffffu, is_y_usual = y_bits - 0x01000000u < 252u << 24;
  precise float quotient = x / y;
  if (is_x_subnormal || !is_y_usual) {
    const float up = uintBitsToFloat(227u << 23), up_49 = uintBitsToFloat(176u << 23);  // 2^100, 2^49
    const bool is_large = y_bits >= 0xfd000000u, is_tiny = y_bits < 0x01000000u;      // from 2^126; subnormal or 0
    precise float numerator = x * (is_large ? 0.0625 : up), divisor = is_large ? y * 0.0625 : y;
    if (is_x_subnormal) numerator = with_sign(float(x_bits >> 1) / up_49, x);  // x 2^100
    if (is_tiny) divisor = with_sign(float(y_bits >> 1), y);  // y 2^149
    quotient = numerator / divisor * (is_large ? 1.0 : (is_tiny ? up_49 : 1.0 / up));
  }
  return quotient;
}

#elif defined(C_double)
#define AULE_REAL
#include "pointwise/functions/math_double.glsl"
double divide(double x, double y) { return x / y; }
#endif

#ifdef AULE_REAL
#include "common/half_even.glsl"
// GLSL's min and max may drop NaN, and drivers make them of comparisons. A sum of absolute values is NaN if one of them
// is. By mix() and not by || and ?:, of which compilers make branches.
T max_(T x, T y) {
  const T sum = abs(x) + abs(y);
  return mix(mix(x, y, y > x), sum, is_nan(sum));
}
T min_(T x, T y) {
  const T sum = abs(x) + abs(y);
  return mix(mix(x, y, y < x), sum, is_nan(sum));
}
T fmax_(T x, T y) { return is_nan(x) || (!is_nan(y) && y > x) ? y : x; }
T fmin_(T x, T y) { return is_nan(x) || (!is_nan(y) && y < x) ? y : x; }
// Drivers that make float64's rounding of other instructions lose the sign of a 0.
T ceil_(T x) { return with_sign(ceil(x), x); }
T floor_(T x) { return with_sign(floor(x), x); }
T trunc_(T x) { return with_sign(trunc(x), x); }
T round_(T x) { return with_sign(half_even(x), x); }
T sign_(T x) { return is_nan(x) ? T(0) : sign(x); }
T div_trunc(T x, T y) { return trunc_(divide(x, y)); }

T gelu_(T x) { return x * half_erfc(-x * T(0.70710678118654752440lf)); }
T gelu_grad(T x) {
  return half_erfc(-x * T(0.70710678118654752440lf)) + x * T(0.39894228040143267794lf) * exp_(T(-0.5) * x * x);
}
// (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). This has no branch and does not cancel
// for negative x. float32 takes the device's own exp: its error at large arguments is small beside 1, or in a result
// near 0.
#ifdef C_float
T gelu_exp(T x) { return exp(x); }
#else
T gelu_exp(T x) { return exp_(x); }
#endif
T gelu_share(T x) { return T(1) / (T(1) + gelu_exp(T(-1.59576912160573071176lf) * (x + T(0.044715lf) * x * x * x))); }
T gelu_tanh(T x) { return x * gelu_share(x); }
T gelu_tanh_grad(T x) {
  T s = gelu_share(x);
  return s + x * s * (T(1) - s) * T(1.59576912160573071176lf) * (T(1) + T(0.134145lf) * x * x);
}
T mish_grad(T x) {
  T s = sigmoid_(x), t = tanh_(softplus_(x));
  return t + x * s * (T(1) - t * t);
}
#include "pointwise/functions/remainder.glsl"
#ifdef C_float
float fmod_(float x, float y) {
  const uint a = floatBitsToUint(x) & 0x7fffffffu, b = floatBitsToUint(y) & 0x7fffffffu;
  if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) return NAN;
  return with_sign(uintBitsToFloat(remainder_bits(a, b)), x);
}
#else
double fmod_(double x, double y) {
  const uint64_t infinity = uint64_t(0x7ff) << 52, number = ~(uint64_t(1) << 63);
  const uint64_t a = packUint2x32(unpackDouble2x32(x)) & number, b = packUint2x32(unpackDouble2x32(y)) & number;
  if (a >= infinity || b > infinity || b == uint64_t(0)) return DNAN;
  return with_sign(packDouble2x32(unpackUint2x32(remainder_bits(a, b))), x);
}
#endif
T remainder_(T x, T y) {
  T r = fmod_(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
}
T div_floor(T x, T y) {
  if (y == T(0)) return x / y;
  T m = fmod_(x, y), q = divide(x - m, y);
  if (m != T(0) && (m < T(0)) != (y < T(0))) q -= T(1);
  if (q == T(0)) return with_sign(T(0), x / y);
  T f = floor(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
#else
T max_(T x, T y) { return y > x ? y : x; }
T min_(T x, T y) { return y < x ? y : x; }
T fmax_(T x, T y) { return y > x ? y : x; }
T fmin_(T x, T y) { return y < x ? y : x; }
T ceil_(T x) { return x; }
T floor_(T x) { return x; }
T trunc_(T x) { return x; }
T round_(T x) { return x; }
T sign_(T x) { return sign(x); }
bool is_nan(T x) { return false; }
bool is_inf(T x) { return false; }
bool sign_bit(T x) { return x < T(0); }
// DIVISOR hides a constant from compilers (inductor/prelude.glsl).
#ifndef DIVISOR
#define DIVISOR(y) (y)
#endif
// Integer division by 0 gives 0 and never traps. A divisor of -1 is a case of its own: lowest / -1 overflows.
T div_trunc(T x, T y) { return y == T(0) ? T(0) : (y == T(-1) ? -x : x / DIVISOR(y)); }
T fmod_(T x, T y) { return y == T(0) || y == T(-1) ? T(0) : x - x / DIVISOR(y) * y; }
T remainder_(T x, T y) {
  T r = fmod_(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
}
T div_floor(T x, T y) {
  T q = div_trunc(x, y);
  return fmod_(x, y) != T(0) && (x < T(0)) != (y < T(0)) ? q - T(1) : q;
}
T pow_(T x, T y) {
  if (y < T(0)) return x == T(1) ? T(1) : (x == T(-1) ? ((y & T(1)) == T(0) ? T(1) : T(-1)) : T(0));
  T r = T(1);
  for (int bit = 0; bit < 64 && y != T(0); ++bit) {
    if ((y & T(1)) != T(0)) r *= x;
    x *= x;
    y >>= 1;
  }
  return r;
}
T gcd_(T x, T y) {
  x = abs(x);
  y = abs(y);
  for (int i = 0; i < 128 && y != T(0); ++i) {
    T r = fmod_(x, y);
    x = y;
    y = r;
  }
  return x;
}
T lcm_(T x, T y) {
  T g = gcd_(x, y);
  return g == T(0) ? T(0) : abs(div_trunc(x, g) * y);
}
#undef T_BITS
#ifdef C_int
#define T_BITS 32
#else
#define T_BITS 64
#endif
T shift_left(T x, T y) { return y < T(0) || y >= T(T_BITS) ? T(0) : x << int(y); }
T shift_right(T x, T y) { return x >> (y < T(0) || y >= T(T_BITS) ? T_BITS - 1 : int(y)); }
#endif
