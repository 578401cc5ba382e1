// The fraction of a turn that a float64 angle is, by exact arithmetic for angles of any size (Payne and Hanek).
// Include from math_double.glsl.
#ifndef AULE_TURNS_DOUBLE_GLSL
#define AULE_TURNS_DOUBLE_GLSL
// 64 bits of 0 and then 1 / (2 pi), highest word first.
const uint TURN_WORDS[39] = uint[39](
    0x00000000u, 0x00000000u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau,
    0xf7aef158u, 0x6dc91b8eu, 0x909374b8u, 0x01924bbau, 0x82746487u, 0x3f877ac7u, 0x2c4a69cfu, 0xba208d7du, 0x4baed121u,
    0x3a671c09u, 0xad17df90u, 0x4e64758eu, 0x60d4ce7du, 0x272117e2u, 0xef7e4a0eu, 0xc7fe25ffu, 0xf7816603u, 0xfbcbc462u,
    0xd6829b47u, 0xdb4d9fb3u, 0xc9f2c26du, 0xd3d18fd9u, 0xa797fa8bu, 0x5d49eeb1u, 0xfaf97c5eu, 0xcf41ce7du, 0xe294a4bau,
    0x9afed7ecu, 0x47e35742u, 0x1580cc11u);
// |x| = r + quadrant pi / 2 but for whole turns, |r| <= pi / 4, for 2^19 <= |x|.
// |x| = m 2^k. Bits of 1 / (2 pi) above 2^-k give whole turns. Of those below, 192 suffice: a float64 is no nearer to a
// multiple of pi / 2 than by 2^-62 of a turn, so that 128 bits of the product leave more than 53 that count.
double quadrant_of_large(double x, out int quadrant) {
  const uvec2 u = unpackDouble2x32(x);
  const uint low = u.x, high = (u.y & 0xfffffu) | 0x100000u, start = ((u.y >> 20) & 0x7ffu) - 1075u + 64u;
  const uint word = start >> 5, shift = start & 31u;
  uint product[6];  // lowest word first
  uint64_t carry = uint64_t(0);
  uint below = 0u;
  [[unroll]] for (int i = 0; i < 6; ++i) {
    uint turn = TURN_WORDS[word + 5u - i];
    if (shift != 0u) turn = (turn << shift) | (TURN_WORDS[word + 6u - i] >> (32u - shift));
    const uint64_t first = uint64_t(low) * uint64_t(turn) + carry;
    const uint64_t sum = uint64_t(high) * uint64_t(below) + uint64_t(uint(first));
    product[i] = uint(sum);
    carry = (first >> 32) + (sum >> 32);
    below = turn;
  }
  quadrant = int(product[5] >> 30);
  uint64_t f = packUint2x32(uvec2(product[4], product[5])), tail = packUint2x32(uvec2(product[2], product[3]));
  f = (f << 2) | (tail >> 62);  // of a quadrant, in units of 2^-64
  tail <<= 2;
  const bool is_negative = (f >> 63) != uint64_t(0);
  if (is_negative) {
    ++quadrant;
    tail = ~tail + uint64_t(1);
    f = ~f + uint64_t(tail == uint64_t(0) ? 1 : 0);
  }
  const uint top = uint(f >> 32);
  const int up = top != 0u ? 31 - findMSB(top) : (uint(f) != 0u ? 63 - findMSB(uint(f)) : 63);
  if (up > 0) f = (f << up) | (tail >> (64 - up));
  const double scaled = double(uint(f >> 32)) * 4294967296.0lf + double(uint(f));
  const double r = scaled * double_exp2_int(-64 - up) * 1.57079632679489661923lf;
  return is_negative ? -r : r;
}
#endif
