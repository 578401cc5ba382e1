// x = m 2^e with 0.5 <= |m| < 1, from the bits; e is 0 for 0, infinities and NaN, which are their own m.
#ifdef C_float
float frexp_(float x, out int e) {
  uint a = floatBitsToUint(x) & 0x7fffffffu;
  e = 0;
  if (a == 0u || a >= 0x7f800000u) return x;
  if (a < 0x00800000u) {  // subnormal: a 2^-149
    e = -149;
    a = floatBitsToUint(float(a));
  }
  e += int(a >> 23) - 126;
  return with_sign(uintBitsToFloat((a & 0x7fffffu) | 0x3f000000u), x);
}
#else
double frexp_(double x, out int e) {
  e = 0;
  if (x == 0.0lf || isnan(x) || isinf(x)) return x;
  if (abs(x) < 2.2250738585072014e-308lf) {
    x *= 18014398509481984.0lf;
    e = -54;
  }
  const uvec2 b = unpackDouble2x32(x);
  e += int((b.y >> 20) & 0x7ffu) - 1022;
  return packDouble2x32(uvec2(b.x, (b.y & 0x800fffffu) | 0x3fe00000u));
}
#endif
T frexp_mantissa(T x) {
  int e;
  return frexp_(x, e);
}
T frexp_exponent(T x) {
  int e;
  frexp_(x, e);
  return T(e);
}
