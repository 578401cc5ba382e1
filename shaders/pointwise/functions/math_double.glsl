// The functions of math.glsl in float64, to about 1e-15: GLSL has none beyond sqrt. They are series and no minimax
// fits, because float64 serves to check gradients and need not be fast.
#ifndef AULE_MATH_DOUBLE_GLSL
#define AULE_MATH_DOUBLE_GLSL
#define DINF packDouble2x32(uvec2(0u, 0x7ff00000u))
#define DNAN packDouble2x32(uvec2(0u, 0x7ff80000u))
bool is_nan(double x) { return isnan(x); }
bool is_inf(double x) { return isinf(x); }
bool is_zero(double x) {
  const uvec2 u = unpackDouble2x32(x);
  return ((u.y & 0x7fffffffu) | u.x) == 0u;
}
bool sign_bit(double x) { return (unpackDouble2x32(x).y & 0x80000000u) != 0u; }
double with_sign(double x, double s) {
  uvec2 b = unpackDouble2x32(x);
  return packDouble2x32(uvec2(b.x, (b.y & 0x7fffffffu) | (unpackDouble2x32(s).y & 0x80000000u)));
}
double double_exp2_int(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }
double sqrt_(double x) { return sqrt(x); }

double expm1_series(double r) {  // |r| <= 0.5
  double y = 1.0lf;
  for (int n = 17; n >= 2; --n) y = 1.0lf + r * y / double(n);
  return r * y;
}
double exp_(double x) {
  if (isnan(x)) return x;
  if (x > 709.782712893384lf) return DINF;
  if (x < -745.133219101941lf) return 0.0lf;
  double k = roundEven(x * 1.4426950408889634lf);
  precise double r = x - k * 6.93147180369123816490e-01lf;
  r = r - k * 1.90821492927058770002e-10lf;
  int n = int(k), half_n = n >> 1;
  return (1.0lf + expm1_series(r)) * double_exp2_int(half_n) * double_exp2_int(n - half_n);
}
double expm1_(double x) { return abs(x) < 0.5lf ? with_sign(expm1_series(x), x) : exp_(x) - 1.0lf; }
double exp2_(double x) {
  if (isnan(x) || isinf(x) || abs(x) > 1080.0lf) return exp_(x);
  double k = roundEven(x);
  int n = int(k), half_n = n >> 1;
  return exp_((x - k) * 0.69314718055994530942lf) * double_exp2_int(half_n) * double_exp2_int(n - half_n);
}
double log_(double x) {
  if (isnan(x) || x == DINF) return x;
  if (x <= 0.0lf) return x == 0.0lf ? -DINF : DNAN;
  int e = 0;
  if (x < 2.2250738585072014e-308lf) {
    x *= 18014398509481984.0lf;
    e = -54;
  }
  uvec2 b = unpackDouble2x32(x);
  int shift = int(b.y - 0x3fe6a09eu) >> 20;
  e += shift;
  double m = packDouble2x32(uvec2(b.x, b.y - (uint(shift) << 20)));
  double s = (m - 1.0lf) / (m + 1.0lf), z = s * s, y = 0.0lf;
  for (int n = 23; n >= 1; n -= 2) y = y * z + 1.0lf / double(n);
  return double(e) * 6.93147180369123816490e-01lf + (2.0lf * s * y + double(e) * 1.90821492927058770002e-10lf);
}
double log2_(double x) { return log_(x) * 1.4426950408889634lf; }
double log10_(double x) { return log_(x) * 0.43429448190325182765lf; }
double log1p_(double x) {
  if (isnan(x) || x <= -1.0lf || x > 1e15lf) return log_(1.0lf + x);
  precise double u = 1.0lf + x;
  precise double lost = x - (u - 1.0lf);
  return with_sign(log_(u) + lost / u, x);
}
double pow_(double x, double y) {
  if (y == 0.0lf || x == 1.0lf) return 1.0lf;
  if (isnan(x) || isnan(y)) return DNAN;
  double a = abs(x), r;
  bool whole = isinf(y) || y == floor(y);
  bool odd = !isinf(y) && whole && abs(y - 2.0lf * floor(y * 0.5lf)) == 1.0lf;
  if (isinf(y)) r = a == 1.0lf ? 1.0lf : ((a > 1.0lf) == (y > 0.0lf) ? DINF : 0.0lf);
  else if (a == 0.0lf || isinf(a)) r = (a == 0.0lf) == (y < 0.0lf) ? DINF : 0.0lf;
  else if (x < 0.0lf && !whole) return DNAN;
  else r = exp_(y * log_(a));
  return odd && sign_bit(x) ? -r : r;
}
double sin_quadrant(double r, int q) {
  double z = r * r, y = 1.0lf;
  if ((q & 1) == 0) {
    for (int n = 19; n >= 3; n -= 2) y = 1.0lf - z * y / double(n * (n - 1));
    y *= r;
  } else {
    for (int n = 18; n >= 2; n -= 2) y = 1.0lf - z * y / double(n * (n - 1));
  }
  return (q & 2) == 0 ? y : -y;
}
#include "pointwise/functions/turns_double.glsl"
double trig_reduce(double x, out int q) {  // x = r + q pi / 2
  if (abs(x) > 1e6lf) {
    const double r = quadrant_of_large(x, q);
    if (x < 0.0lf) q = -q;
    return x < 0.0lf ? -r : r;
  }
  double k = roundEven(x * 0.63661977236758134308lf);
  q = int(mod(k, 4.0lf));
  precise double r = x - k * 1.57079632673412561417e+00lf;
  r = r - k * 6.07710050630396597660e-11lf;
  r = r - k * 2.02226624879595063154e-21lf;
  return r;
}
double sin_(double x) {
  if (isnan(x) || isinf(x)) return DNAN;
  if (abs(x) < 7.450580596923828e-09lf) return x;  // 2^-27; -0, too
  int q;
  double r = trig_reduce(x, q);
  return sin_quadrant(r, q);
}
double cos_(double x) {
  if (isnan(x) || isinf(x)) return DNAN;
  int q;
  double r = trig_reduce(x, q);
  return sin_quadrant(r, q + 1);
}
double tanh_(double x) {
  double a = abs(x);
  if (isnan(x)) return x;
  double e = expm1_(2.0lf * a);
  return with_sign(a > 22.0lf ? 1.0lf : e / (e + 2.0lf), x);
}
double sigmoid_(double x) { return 1.0lf / (1.0lf + exp_(-x)); }
double softplus_(double x) { return isnan(x) ? x : max(x, 0.0lf) + log1p_(exp_(-abs(x))); }
double erf_series(double x) {  // |x| < 2.5
  double z = 2.0lf * x * x, term = 1.0lf, sum = 1.0lf;
  for (int n = 1; n < 60; ++n) {
    term *= z / double(2 * n + 1);
    sum += term;
  }
  return 1.12837916709551257390lf * x * exp_(-x * x) * sum;
}
double erfc_(double x) {
  if (isnan(x)) return x;
  double a = abs(x);
  if (a < 1.0lf) return 1.0lf - erf_series(x);
  double f = 0.0lf;  // continued fraction
  for (int n = a < 2.5lf ? 170 : 80; n >= 1; --n) f = 0.5lf * double(n) / (a + f);
  double y = exp_(-a * a) * 0.56418958354775628695lf / (a + f);
  return x < 0.0lf ? 2.0lf - y : y;
}
double half_erfc(double x) { return 0.5lf * erfc_(x); }
double erf_(double x) { return isnan(x) || abs(x) < 2.5lf ? erf_series(x) : 1.0lf - erfc_(x); }
// Halves the angle until the series is short: atan x = 2 atan(x / (1 + sqrt(1 + x^2))).
double atan_(double x) {
  if (isnan(x)) return x;
  double a = abs(x), base = 0.0lf;
  if (a > 1.0lf) {
    base = 1.57079632679489661923lf;
    a = -1.0lf / a;
  }
  a = a / (1.0lf + sqrt(1.0lf + a * a));
  a = a / (1.0lf + sqrt(1.0lf + a * a));
  const double z = a * a;
  double y = 0.0lf;
  for (int n = 23; n >= 1; n -= 2) y = 1.0lf / double(n) - z * y;
  return with_sign(base + 4.0lf * (a * y), x);
}
double atan2_(double y, double x) {
  if (isnan(x) || isnan(y)) return DNAN;
  double a;
  if (isinf(x) && isinf(y)) a = 0.78539816339744830962lf;
  else if (y == 0.0lf) a = 0.0lf;
  else if (x == 0.0lf) a = 1.57079632679489661923lf;
  else a = atan_(abs(y) / abs(x));
  if (sign_bit(x)) a = 3.14159265358979323846lf - a;
  return with_sign(a, y);
}
double hypot_(double x, double y) {
  const double a = abs(x), b = abs(y), m = max(a, b);
  if (isinf(x) || isinf(y)) return DINF;
  if (isnan(x) || isnan(y)) return DNAN;
  if (m == 0.0lf) return 0.0lf;
  const double r = min(a, b) / m;
  return m * sqrt(1.0lf + r * r);
}
// `dt` is that of a step, which is float64's here.
double nextafter_(double x, double y, int dt) {
  if (isnan(x) || isnan(y)) return DNAN;
  const uint64_t sign = uint64_t(1) << 63;
  const uint64_t from = packUint2x32(unpackDouble2x32(x)), to = packUint2x32(unpackDouble2x32(y));
  const uint64_t a = from & ~sign, b = to & ~sign;
  uint64_t next = from;
  if (from == to || (a | b) == uint64_t(0)) next = to;
  else if (a == uint64_t(0)) next = (to & sign) | uint64_t(1);
  else next = ((from ^ to) & sign) == uint64_t(0) && b > a ? from + uint64_t(1) : from - uint64_t(1);
  return packDouble2x32(unpackUint2x32(next));
}
#endif
