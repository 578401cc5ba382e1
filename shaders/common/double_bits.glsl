// float64 as its 64 bits, by integer arithmetic: for devices without float64. Rounds to nearest, ties to even, with
// subnormal numbers, infinities and NaN as IEEE 754 has them. Include after dtype.glsl and vec8.glsl.
#ifndef AULE_DOUBLE_BITS_GLSL
#define AULE_DOUBLE_BITS_GLSL

const uint64_t D_SIGN = uint64_t(1) << 63, D_HIDDEN = uint64_t(1) << 52, D_FRACTION = D_HIDDEN - 1;
const uint64_t D_INF = uint64_t(0x7ff) << 52, D_QUIET = uint64_t(1) << 51, D_NAN = D_INF | D_QUIET;

int high_bit(uint64_t x) {  // x != 0
  uint upper = uint(x >> 32);
  return upper != 0u ? 32 + findMSB(upper) : findMSB(uint(x));
}
uint64_t d_abs(uint64_t x) { return x & ~D_SIGN; }
bool d_nan(uint64_t x) { return d_abs(x) > D_INF; }
bool d_zero(uint64_t x) { return d_abs(x) == uint64_t(0); }

// Integers in the order of the numbers. Both zeros are 0. x is not NaN.
int64_t d_order(uint64_t x) { return (x & D_SIGN) != uint64_t(0) ? -int64_t(d_abs(x)) : int64_t(x); }
bool d_equal(uint64_t x, uint64_t y) { return !d_nan(x) && !d_nan(y) && d_order(x) == d_order(y); }
bool d_less(uint64_t x, uint64_t y) { return !d_nan(x) && !d_nan(y) && d_order(x) < d_order(y); }
bool d_less_equal(uint64_t x, uint64_t y) { return !d_nan(x) && !d_nan(y) && d_order(x) <= d_order(y); }

// x / 2^drop, drop in 1..63, to nearest even.
uint64_t rounded_shift(uint64_t x, int drop) {
  uint64_t q = x >> drop, rest = x & ((uint64_t(1) << drop) - 1), tie = uint64_t(1) << (drop - 1);
  return q + uint64_t(rest > tie || (rest == tie && (q & uint64_t(1)) != uint64_t(0)) ? 1 : 0);
}
// x / 2^drop, any drop >= 0. The lowest bit is set if a dropped bit was.
uint64_t sticky_shift(uint64_t x, int drop) {
  if (drop == 0) return x;
  if (drop > 63) return uint64_t(x != uint64_t(0) ? 1 : 0);
  return (x >> drop) | uint64_t((x & ((uint64_t(1) << drop) - 1)) != uint64_t(0) ? 1 : 0);
}
// m has its highest bit at 62, and e is the exponent field for that position.
uint64_t d_pack(uint64_t sign, int e, uint64_t m) {
  if (e >= 2047) return sign | D_INF;
  if (e < 1) return sign | rounded_shift(sticky_shift(m, 1 - e), 10);
  return sign | ((uint64_t(e - 1) << 52) + rounded_shift(m, 10));  // a carry raises the exponent
}
// The 53 bits of a finite number that is not 0, a subnormal one shifted up, and their exponent field.
uint64_t d_significand(uint64_t x, out int e) {
  uint64_t m = x & D_FRACTION;
  e = int(uint(x >> 52) & 0x7ffu);
  if (e != 0) return m | D_HIDDEN;
  int shift = 52 - high_bit(m);
  e = 1 - shift;
  return m << shift;
}

uint64_t d_from_float_bits(uint u) {
  uint64_t sign = uint64_t(u & 0x80000000u) << 32;
  uint e = u >> 23 & 0xffu, m = u & 0x7fffffu;
  if (e == 255u) return sign | D_INF | (m != 0u ? D_QUIET | uint64_t(m) << 29 : uint64_t(0));
  if (e != 0u) return sign | uint64_t(e + 896u) << 52 | uint64_t(m) << 29;
  if (m == 0u) return sign;
  int top = findMSB(m);
  return sign | uint64_t(top + 874) << 52 | (uint64_t(m) << (52 - top) & D_FRACTION);
}
uint d_to_float_bits(uint64_t x) {
  uint sign = uint(x >> 32) & 0x80000000u;
  int e = int(uint(x >> 52) & 0x7ffu) - 896;
  uint64_t m = x & D_FRACTION;
  if (e == 1151) return sign | 0x7f800000u | (m != uint64_t(0) ? 0x400000u | uint(m >> 29) : 0u);
  if (e >= 255) return sign | 0x7f800000u;
  if (e < -24) return sign;
  m |= D_HIDDEN;
  if (e < 1) return sign | uint(rounded_shift(m, 30 - e));
  return sign | (uint(e - 1) << 23) + uint(rounded_shift(m, 29));
}
uint64_t d_from_int64(int64_t x) {
  if (x == int64_t(0)) return uint64_t(0);
  uint64_t sign = x < int64_t(0) ? D_SIGN : uint64_t(0), m = sign != uint64_t(0) ? uint64_t(0) - uint64_t(x) :
      uint64_t(x);
  int top = high_bit(m);
  if (top <= 52) return sign | uint64_t(top + 1023) << 52 | (m << (52 - top) & D_FRACTION);
  return sign | ((uint64_t(top + 1022) << 52) + rounded_shift(m, top - 52));
}
// A function of its own, because lavapipe 22.3.6 takes an int that was widened to int64 for positive.
uint64_t d_from_int(int x) {
  if (x == 0) return uint64_t(0);
  uint m = x < 0 ? 0u - uint(x) : uint(x);
  int top = findMSB(m);
  return (x < 0 ? D_SIGN : uint64_t(0)) | uint64_t(top + 1023) << 52 | (uint64_t(m) << (52 - top) & D_FRACTION);
}
// Rounds towards 0. NaN and numbers out of int64's range give its lowest number, as on an x86 CPU.
int64_t d_to_int64(uint64_t x) {
  int e = int(uint(x >> 52) & 0x7ffu) - 1023;
  if (e < 0) return int64_t(0);
  if (e > 62) return int64_t(D_SIGN);
  uint64_t m = (x & D_FRACTION) | D_HIDDEN;
  m = e <= 52 ? m >> (52 - e) : m << (e - 52);
  return int64_t((x & D_SIGN) != uint64_t(0) ? uint64_t(0) - m : m);
}

uint64_t d_add(uint64_t x, uint64_t y) {
  if (d_nan(x) || d_nan(y)) return D_NAN;
  if (d_abs(x) == D_INF) return d_abs(y) == D_INF && x != y ? D_NAN : x;
  if (d_abs(y) == D_INF) return y;
  if (d_zero(x)) return d_zero(y) ? x & y : y;
  if (d_zero(y)) return x;
  if (d_abs(x) < d_abs(y)) {
    uint64_t t = x;
    x = y;
    y = t;
  }
  int ex, ey;
  uint64_t mx = d_significand(x, ex) << 9, my = d_significand(y, ey) << 9;  // highest bit at 61
  my = sticky_shift(my, ex - ey);
  uint64_t m = ((x ^ y) & D_SIGN) == uint64_t(0) ? mx + my : mx - my;
  if (m == uint64_t(0)) return uint64_t(0);
  int top = high_bit(m);
  return d_pack(x & D_SIGN, ex + top - 61, m << (62 - top));
}

uint64_t d_mul(uint64_t x, uint64_t y) {
  uint64_t sign = (x ^ y) & D_SIGN;
  if (d_nan(x) || d_nan(y)) return D_NAN;
  if (d_abs(x) == D_INF || d_abs(y) == D_INF) return d_zero(x) || d_zero(y) ? D_NAN : sign | D_INF;
  if (d_zero(x) || d_zero(y)) return sign;
  int ex, ey;
  uint64_t a = d_significand(x, ex) << 10, b = d_significand(y, ey) << 11;  // highest bits at 62 and 63
  uint64_t low = uint64_t(0xffffffffu), al = a & low, ah = a >> 32, bl = b & low, bh = b >> 32;
  uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, middle = (ll >> 32) + (lh & low) + (hl & low);
  uint64_t m = ah * bh + (lh >> 32) + (hl >> 32) + (middle >> 32);  // the upper half: highest bit at 61 or 62
  bool more = ((middle & low) | (ll & low)) != uint64_t(0);
  int e = ex + ey - 1022;
  if ((m >> 62) == uint64_t(0)) {
    m <<= 1;  // the new lowest bit is below the rounding bits
    --e;
  }
  return d_pack(sign, e, m | uint64_t(more ? 1 : 0));
}

uint64_t d_div(uint64_t x, uint64_t y) {
  uint64_t sign = (x ^ y) & D_SIGN;
  if (d_nan(x) || d_nan(y)) return D_NAN;
  if (d_abs(x) == D_INF) return d_abs(y) == D_INF ? D_NAN : sign | D_INF;
  if (d_abs(y) == D_INF) return sign;
  if (d_zero(y)) return d_zero(x) ? D_NAN : sign | D_INF;
  if (d_zero(x)) return sign;
  int ex, ey;
  uint64_t rest = d_significand(x, ex), by = d_significand(y, ey), q = uint64_t(0);
  int e = ex - ey + 1023;
  if (rest < by) {
    rest <<= 1;
    --e;
  }
  for (int i = 0; i < 63; ++i) {  // bit by bit, the first one is 1
    q <<= 1;
    if (rest >= by) {
      rest -= by;
      q |= uint64_t(1);
    }
    rest <<= 1;
  }
  return d_pack(sign, e, q | uint64_t(rest != uint64_t(0) ? 1 : 0));
}

// Loads and stores under the names of the other arithmetic types (common/arithmetic.glsl).
uint64_t load_double_bits(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_F64) return packUint2x32(U32x2Ref(base + i * 8).v);
  if (dt == AULE_DT_F32) return d_from_float_bits(U32Ref(base + i * 4).v);
  if (dt == AULE_DT_I64) return d_from_int64(I64Ref(base + i * 8).v);
  if (is_integer_dtype(dt)) return d_from_int(load_int(base, i, dt));
  return d_from_float_bits(floatBitsToUint(load_float(base, i, dt)));
}
void store_double_bits(uint64_t base, uint64_t i, int dt, uint64_t x) {
  if (dt == AULE_DT_F64) U32x2Ref(base + i * 8).v = unpackUint2x32(x);
  else if (dt == AULE_DT_BOOL) U8Ref(base + i).v = uint8_t(d_zero(x) ? 0u : 1u);
  else if (dt == AULE_DT_F32) U32Ref(base + i * 4).v = d_to_float_bits(x);
  else if (is_integer_dtype(dt)) store_int64(base, i, dt, d_to_int64(x));
  else store_float(base, i, dt, uintBitsToFloat(d_to_float_bits(x)));
}
uint64_t unpack_double_bits(Words r, int i, int dt) {
  if (dt == AULE_DT_F64) return unpack_64(r, i);
  if (dt == AULE_DT_F32) return d_from_float_bits(r.w[i]);
  if (dt == AULE_DT_I64) return d_from_int64(int64_t(unpack_64(r, i)));
  if (is_integer_dtype(dt)) return d_from_int(unpack_int(r, i, dt));
  return d_from_float_bits(floatBitsToUint(unpack_float(r, i, dt)));
}
void pack_double_bits(inout Words r, int i, int dt, uint64_t x) {
  if (dt == AULE_DT_F64) put_64(r, i, x);
  else if (dt == AULE_DT_BOOL) put_bits(r, i, 1, d_zero(x) ? 0u : 1u);
  else if (dt == AULE_DT_F32) put_bits(r, i, 4, d_to_float_bits(x));
  else if (is_integer_dtype(dt)) pack_int64(r, i, dt, d_to_int64(x));
  else pack_float(r, i, dt, uintBitsToFloat(d_to_float_bits(x)));
}
#endif
