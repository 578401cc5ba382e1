// NaN, infinity and 0 by their bits: drivers may assume that no operand of a float comparison is NaN, and that 0 times
// anything is 0, so that `x == 0 ? 0 : x * y` loses its condition. What must keep its order is `precise`: drivers
// (NVIDIA's) sum and scale in another one otherwise.
#ifndef AULE_FLOAT_BITS_GLSL
#define AULE_FLOAT_BITS_GLSL
#define AULE_INF uintBitsToFloat(0x7f800000u)
#define AULE_NAN uintBitsToFloat(0x7fc00000u)
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_nan(int64_t x) { return false; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u; }
bool is_zero(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0u; }
#ifdef AULE_DOUBLE
bool is_zero(double x) {
  const uvec2 u = unpackDouble2x32(x);
  return ((u.y & 0x7fffffffu) | u.x) == 0u;
}
bool is_finite(double x) { return (unpackDouble2x32(x).y & 0x7fffffffu) < 0x7ff00000u; }
bool is_nan(double x) {
  uvec2 u = unpackDouble2x32(x);
  return (u.y & 0x7fffffffu) > 0x7ff00000u || ((u.y & 0x7fffffffu) == 0x7ff00000u && u.x != 0u);
}
// GLSL has no double exp and log. exp: x = k ln2 + r, Taylor to degree 13 on |r| <= ln2/2. log: x = 2^k m,
// m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m-1)/(m+1)). Both are within a few ulp.
double exp(double x) {
  // Clamped first, so that no infinity or NaN is converted to int. The last lines set the results out of range.
  double c = is_nan(x) ? 0.0lf : clamp(x, -745.2lf, 709.8lf);
  double k = floor(c * 1.44269504088896340736lf + 0.5lf);
  precise double r = c - k * 6.93147180369123816490e-01lf;
  r = r - k * 1.90821492927058770002e-10lf;
  double s = 1.0lf / 6227020800.0lf;
  s = s * r + 1.0lf / 479001600.0lf;
  s = s * r + 1.0lf / 39916800.0lf;
  s = s * r + 1.0lf / 3628800.0lf;
  s = s * r + 1.0lf / 362880.0lf;
  s = s * r + 1.0lf / 40320.0lf;
  s = s * r + 1.0lf / 5040.0lf;
  s = s * r + 1.0lf / 720.0lf;
  s = s * r + 1.0lf / 120.0lf;
  s = s * r + 1.0lf / 24.0lf;
  s = s * r + 1.0lf / 6.0lf;
  s = s * r + 0.5lf;
  s = s * r + 1.0lf;
  s = s * r + 1.0lf;
  int n = int(k), h = n / 2;
  // Two factors: one alone would overflow for results near the ends of the range, subnormals included.
  double y = s * packDouble2x32(uvec2(0u, uint(h + 1023) << 20)) * packDouble2x32(uvec2(0u, uint(n - h + 1023) << 20));
  if (x > 709.782712893384lf) y = packDouble2x32(uvec2(0u, 0x7ff00000u));
  if (x < -745.2lf) y = 0.0lf;
  return is_nan(x) ? x : y;
}
double log(double x) {
  if (is_nan(x) || x < 0.0lf) return packDouble2x32(uvec2(0u, 0x7ff80000u));
  if (x == 0.0lf) return packDouble2x32(uvec2(0u, 0xfff00000u));
  uvec2 u = unpackDouble2x32(x);
  if (u.y == 0x7ff00000u) return x;
  int k = 0;
  if (u.y < 0x00100000u) {  // subnormal
    u = unpackDouble2x32(x * 18014398509481984.0lf);
    k = -54;
  }
  k += int(u.y >> 20) - 1023;
  double m = packDouble2x32(uvec2(u.x, (u.y & 0x000fffffu) | 0x3ff00000u));
  if (m > 1.41421356237309504880lf) {
    m *= 0.5lf;
    k += 1;
  }
  double z = (m - 1.0lf) / (m + 1.0lf), w = z * z;
  double s = 1.0lf / 21.0lf;
  for (int i = 19; i >= 1; i -= 2) s = s * w + 1.0lf / double(i);
  precise double low = 2.0lf * z * s + double(k) * 1.90821492927058770002e-10lf;
  return low + double(k) * 6.93147180369123816490e-01lf;
}
double pow(double x, double y) {
  if (y == 0.0lf) return 1.0lf;
  if (x == 0.0lf) return y > 0.0lf ? 0.0lf : packDouble2x32(uvec2(0u, 0x7ff00000u));
  return exp(y * log(x));
}
#endif
#endif
