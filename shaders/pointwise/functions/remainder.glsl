// The exact remainder of two numbers by integer arithmetic, whatever the difference of their exponents. By bits: a
// quotient in the arithmetic type is rounded, overflows, and is off by drivers' division, and some drivers flush
// subnormal numbers. A division removes as many bits as fit beside the divisor. A quotient below 2^8 (float64: 2^11)
// takes no turn of the loop, the largest takes 31 (185).
#ifndef AULE_REMAINDER_GLSL
#define AULE_REMAINDER_GLSL
// Of bits without signs: x finite, y a number and not 0.
uint remainder_bits(uint x, uint y) {
  if (x < y) return x;
  uint m = x & 0x7fffffu, divisor = y & 0x7fffffu;
  if (x >= 0x800000u) m |= 0x800000u;
  if (y >= 0x800000u) divisor |= 0x800000u;
  const int e = max(int(y >> 23), 1);
  int left = max(int(x >> 23), 1) - e;
  m = (m << min(left, 8)) % divisor;
  for (left -= 8; left > 0 && m != 0u; left -= 8) m = (m << min(left, 8)) % divisor;
  if (m == 0u) return 0u;
  const int up = min(23 - findMSB(m), e - 1);
  m <<= up;
  return m < 0x800000u ? m : (uint(e - 1 - up) << 23) + m;
}
#endif

#if defined(C_double) && !defined(AULE_REMAINDER_DOUBLE_GLSL)
#define AULE_REMAINDER_DOUBLE_GLSL
uint64_t remainder_bits(uint64_t x, uint64_t y) {
  if (x < y) return x;
  const uint64_t hidden = uint64_t(1) << 52, fraction = hidden - uint64_t(1);
  uint64_t m = x & fraction, divisor = y & fraction;
  if (x >= hidden) m |= hidden;
  if (y >= hidden) divisor |= hidden;
  // 0 in all launches, which a compiler does not know: see DIVISOR of inductor/prelude.glsl.
  divisor += uint64_t(gl_WorkGroupID.z);
  const int e = max(int(uint(y >> 52)), 1);
  int left = max(int(uint(x >> 52)), 1) - e;
  m = (m << min(left, 11)) % divisor;
  for (left -= 11; left > 0 && m != uint64_t(0); left -= 11) m = (m << min(left, 11)) % divisor;
  if (m == uint64_t(0)) return m;
  const uint high = uint(m >> 32);
  const int up = min(52 - (high != 0u ? 32 + findMSB(high) : findMSB(uint(m))), e - 1);
  m <<= up;
  return m < hidden ? m : (uint64_t(uint(e - 1 - up)) << 52) + m;
}
#endif
