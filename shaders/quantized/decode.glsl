// Decoders of quantized weights (formats.def). Eight neighbours along k are an octet; an invocation decodes a span of
// SPAN octets, which share bytes: w = scale * number(q) + offset, where number(q) is exact, and scale and offset are an
// octet's own. The kernel has declared FORMAT, SPAN, ALIGN, SCALES, SCALE_DTYPE, ZERO_DTYPE, ONE_SCALE and Params, and
// EACH: whether each weight is used by itself, and not only sums.
//
// With OCTET_BYTES defined, an octet's integers are bytes for dot products of integers.
//
// Integers of few bits become floats as the mantissa of a float16 between 1 and 2: two at once, which takes fewer
// instructions than a conversion of each. So q is number / unit + one.
//
// If scales have tensors of their own, that of value j of row i is number
// ((i >> scale_shifts / 32) * scale_row + j) >> scale_shifts % 32, and ONE_SCALE says that a span has one. SCALES:
//   1  scales, of SCALE_DTYPE
//   2  scales, and zeros of ZERO_DTYPE: w = scale * (q - zero); of int4_offset w = scale * q + zero
//   3  codes of a byte, which stand for zeros[code] * outer_scales[number / 256] + *code_offset
#ifndef AULE_QUANTIZED_DECODE_GLSL
#define AULE_QUANTIZED_DECODE_GLSL
#include "common/dtype.glsl"
#include "common/float8.glsl"
#include "quantized/decode_loads.glsl"

#ifdef OCTET_BYTES
#define NUMBERS(name) uvec2 name
#else
#define NUMBERS(name) float name[8]
#endif
struct Octet {
  NUMBERS(q);
  float one, unit;  // constants of the format
  float zero, scale, offset;
};
#ifdef OCTET_BYTES
// number(q) is a byte less this.
float centre_of(Octet w) { return (w.one - 1.0) * w.unit + w.zero; }
#else
float number_of(Octet w, int i) { return (w.q[i] - w.one) * w.unit - w.zero; }
#endif

const int kMostOctets = 4;  // of a span
struct Span {
  Octet octets[kMostOctets];
};

// A kernel that wants a part of a span at a time defines PARTIAL and sets `skipped`: octet i of the span is then octet
// i + skipped of it, a multiple of `run`, where runs interleave; the span's last octets are undefined.
#ifdef PARTIAL
uint skipped = 0u;
#else
const uint skipped = 0u;
#endif

const int kValues = 0, kDataBytes = 1, kScaleBytes = 2, kRun = 3, kLanes = 4;
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at, span, run, lanes, levels, \
                         integers)                                                                                 \
  if (FORMAT == code) return uint[5](values, data_bytes, scale_bytes, run, lanes)[column];
uint format_number(int column) {
#include "quantized/formats.def"
  return 1;
}

// Octet `i` of span `u` of a row is number first_octet(u) + next_octet(i): spans of `lanes` neighbours interleave their
// runs of octets.
uint first_octet(uint u) {
  const uint lanes = format_number(kLanes);
  return SPAN == 1 ? u : u / lanes * lanes * SPAN + u % lanes * format_number(kRun);
}
uint next_octet(int i) {
  const uint run = format_number(kRun);
  return uint(i) % run + uint(i) / run * format_number(kLanes) * run;
}

// Of both halves of a word: the field of `bits` bits at bit `from`, at bit `to`.
uint placed(uint w, int from, int to, int bits) {
  return (to >= from ? w << max(to - from, 0) : w >> max(from - to, 0)) & ((1u << bits) - 1u << to) * 0x10001u;
}
#ifdef OCTET_BYTES
// The same fields as bytes.
void of_two_fields(uvec2 low, int at, int bits, uvec2 high, int high_at, int high_bits, inout uvec2 q) {
  q = low >> at & ((1u << bits) - 1u) * 0x01010101u;
  if (high_bits > 0) q |= (high >> high_at & ((1u << high_bits) - 1u) * 0x01010101u) << bits;
}
#else
// 1 + field / 2^(bits + high_bits) of each of eight bytes: bits of `low` at bit `at`, above them those of `high`.
void of_two_fields(uvec2 low, int at, int bits, uvec2 high, int high_at, int high_bits, inout float q[8]) {
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const int odd = 8 * (i & 1), first = i / 2 * 4 + i % 2;
    uint fields = 0x3c003c00u | placed(low[i / 2], at + odd, 10 - bits - high_bits, bits);
    if (high_bits > 0) fields |= placed(high[i / 2], high_at + odd, 10 - high_bits, high_bits);
    const vec2 pair = unpackHalf2x16(fields);
    q[first] = pair.x;
    q[first + 2] = pair.y;
  }
}
#endif
void of_bytes(uvec2 bytes, int at, int bits, inout NUMBERS(q)) {
  of_two_fields(bytes, at, bits, uvec2(0), 0, 0, q);
}
// Octet `i` of 16 bytes whose low nibbles come before the high ones.
uvec2 half_of(uvec4 bytes, int i) { return (i & 1) == 0 ? bytes.xy : bytes.zw; }
int nibble_of(int i) { return (i >> 1) * 4; }

Octet octet(float one, float unit) {
  Octet r;
  r.one = one;
  r.unit = unit;
  r.zero = 0.0;
  r.offset = 0.0;
  return r;
}
// Of bytes as signed numbers.
Octet of_signed_bytes(uvec2 bytes) {
#ifdef OCTET_BYTES
  Octet r = octet(1.0, 256.0);
  r.q = bytes;
#else
  Octet r = octet(1.5, 256.0);
  of_bytes(bytes ^ 0x80808080u, 0, 8, r.q);
#endif
  return r;
}
// 16 levels, in shared memory, or, if that is full (LEVELS_IN_LANES), one in each lane of at least 16:
// prepare_levels() before the first use.
#ifdef LEVELS_IN_LANES
float level_of_lane;
float level(uint i) { return subgroupShuffle(level_of_lane, i); }
#else
shared float levels[16];
float level(uint i) { return levels[i]; }
#endif
#ifdef OCTET_BYTES
// Formats that are no integers are not served here.
void by_level(uvec2 bytes, int at, inout uvec2 q) {}
void of_e2m1(uvec2 bytes, int at, inout uvec2 q) {}
#else
void by_level(uvec2 bytes, int at, inout float q[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) q[i] = level(bitfieldExtract(bytes[i / 4], 8 * (i % 4) + at, 4));
}
// The numbers of e2m1 divided by 2^14: its bits are a float16's, of the smallest exponents.
void of_e2m1(uvec2 bytes, int at, inout float q[8]) {
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint w = bytes[i >> 1] >> 8 * (i & 1);  // fields of bytes 0 and 2 of this
    const int first = i / 2 * 4 + i % 2;
    const vec2 pair = unpackHalf2x16(w << 12 - at & 0x80008000u | w << 9 - at & 0x0e000e00u);
    q[first] = pair.x;
    q[first + 2] = pair.y;
  }
}
#endif
// Eight bits of a word, from bit `at` on, as the lowest of eight bytes.
uvec2 bits_as_bytes(uint word, int at) {
  const uint eight = word >> at;
  uvec2 r;
  r.x = eight & 1u | (eight & 2u) << 7 | (eight & 4u) << 14 | (eight & 8u) << 21;
  r.y = eight >> 4 & 1u | (eight >> 4 & 2u) << 7 | (eight >> 4 & 4u) << 14 | (eight >> 4 & 8u) << 21;
  return r;
}

// Each decoder: span `u` of the block whose data and scale are at these addresses. With HELD_LOADS they share one span:
// with a copy for each of 20 calls, NVIDIA's compiler left the sums of matrices in memory: 7 times slower.
#ifdef HELD_LOADS
Span decoded;
#define OUT_SPAN
#define INOUT_SPAN
#define PASS_SPAN
#else
#define OUT_SPAN , out Span decoded
#define INOUT_SPAN , inout Span decoded
#define PASS_SPAN , decoded
#endif

void decode_q4_0(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data);
  const float d = load_half(8, scale);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.5, 16.0);
    of_bytes(half_of(bytes, i), nibble_of(i), 4, r.q);
    r.scale = d;
    decoded.octets[i] = r;
  }
}
void decode_q4_1(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const vec2 d = load_2_halves(8, data);
  const uvec4 bytes = load_16_bytes(0, data + 4);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.0, 16.0);
    of_bytes(half_of(bytes, i), nibble_of(i), 4, r.q);
    r.scale = d.x;
    r.offset = d.y;
    decoded.octets[i] = r;
  }
}
void decode_q5_0(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uint high = load_word(9, data);
  const uvec4 bytes = load_16_bytes(0, data + 4);
  const float d = load_half(8, scale);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.5, 32.0);
    of_two_fields(half_of(bytes, i), nibble_of(i), 4, bits_as_bytes(high, 8 * i), 0, 1, r.q);
    r.scale = d;
    decoded.octets[i] = r;
  }
}
void decode_q5_1(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const vec2 d = load_2_halves(8, data);
  const uint high = load_word(9, data + 4);
  const uvec4 bytes = load_16_bytes(0, data + 8);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.0, 32.0);
    of_two_fields(half_of(bytes, i), nibble_of(i), 4, bits_as_bytes(high, 8 * i), 0, 1, r.q);
    r.scale = d.x;
    r.offset = d.y;
    decoded.octets[i] = r;
  }
}
void decode_q8_0(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data + u * 16u);
  const float d = load_half(8, scale);
  [[unroll]] for (int i = 0; i < 2; ++i) {
    decoded.octets[i] = of_signed_bytes(half_of(bytes, i));
    decoded.octets[i].scale = d;
  }
}

// Blocks of 256. Those of 2 and 3 bits: 32 bytes have four runs of 32 values in their fields of 2 bits.
void decode_q2_k(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uint part = u >> 2;
  const uvec2 bytes = load_8_bytes(0, data + 16 + part * 32u + (u & 3u) * 8u) >> 2u * skipped;
  const vec2 d = load_2_halves(8, data + 80);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint scales = load_byte(9 + i, data + part * 8u + 2u * (uint(i) + skipped & 3u) + (u >> 1 & 1u));
    Octet r = octet(1.0, 4.0);
    of_bytes(bytes, 2 * i, 2, r.q);
    r.scale = d.x * float(scales & 15u);
    r.offset = -(d.y * float(scales >> 4));
    decoded.octets[i] = r;
  }
}
void decode_q3_k(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uint part = u >> 2;
  const uvec2 bytes = load_8_bytes(0, data + 32 + part * 32u + (u & 3u) * 8u) >> 2u * skipped;
  const uvec2 high = load_8_bytes(2, data + (u & 3u) * 8u) >> part * 4u + skipped;
  const float d = load_half(8, scale);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint j = part * 8u + 2u * (uint(i) + skipped & 3u) + (u >> 1 & 1u);  // of 16 scales of 6 bits
    const uint low = load_byte(4 + i, data + 96 + (j & 7u)) >> (j >> 3) * 4u & 15u;
    const uint top = load_byte(9 + i, data + 104 + (j & 3u)) >> (j >> 2) * 2u & 3u;
    Octet r = octet(1.5, 8.0);
    of_two_fields(bytes, 2 * i, 2, high, i, 1, r.q);
    r.scale = d * float(int(low | top << 4) - 32);
    decoded.octets[i] = r;
  }
}
// Scales and minima `2 * j` and `2 * j + 1` of 8, 6 bits each, in 12 bytes behind two float16 numbers that they
// multiply: (scale, minimum, scale, minimum).
vec4 two_scales(uvec4 header, uint j) {
  const uint shift = (j & 1u) * 16u;
  const uvec3 pairs = header.yzw >> shift;
  const bool plain = j < 2u;
  const uint scales = plain ? pairs.x & 0x3f3fu : pairs.z & 0x0f0fu | pairs.x >> 2 & 0x3030u;
  const uint minima = plain ? pairs.y & 0x3f3fu : pairs.z >> 4 & 0x0f0fu | pairs.y >> 2 & 0x3030u;
  const vec2 d = unpackHalf2x16(header.x);
  return vec4(d.x * float(scales & 0xffu), -(d.y * float(minima & 0xffu)), d.x * float(scales >> 8 & 0xffu),
      -(d.y * float(minima >> 8 & 0xffu)));
}
vec4 wanted_first(vec4 scales) { return skipped == 0u ? scales : scales.zwxy; }  // of two runs
// 32 bytes have two runs of 32 values in their nibbles. Span u: half u % 2 of the 32 bytes u / 2.
void decode_q4_k(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data + 16 + u * 16u) >> 2u * skipped;
  const vec4 scales = wanted_first(two_scales(load_16_bytes(4, data), u >> 1));
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.0, 16.0);
    of_bytes(half_of(bytes, i), nibble_of(i), 4, r.q);
    r.scale = scales[i / 2 * 2];
    r.offset = scales[i / 2 * 2 + 1];
    decoded.octets[i] = r;
  }
}
void decode_q5_k(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data + 48 + u * 16u) >> 2u * skipped;
  const uvec4 high = load_16_bytes(4, data + 16 + (u & 1u) * 16u) >> (u >> 1) * 2u + (skipped >> 1);
  const vec4 scales = wanted_first(two_scales(load_16_bytes(8, data), u >> 1));
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.0, 32.0);
    of_two_fields(half_of(bytes, i), nibble_of(i), 4, half_of(high, i), i >> 1, 1, r.q);
    r.scale = scales[i / 2 * 2];
    r.offset = scales[i / 2 * 2 + 1];
    decoded.octets[i] = r;
  }
}
// Of 128 values 64 bytes have the low nibbles, the later 64 in the high ones, and 32 bytes the fields above them.
// Span u: half u % 2 of the 32 bytes u / 2 of nibbles.
void decode_q6_k(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uint part = u >> 2, run = u >> 1 & 1u;
  const uvec4 bytes = load_16_bytes(0, data + u * 16u) >> 2u * skipped;
  const uvec4 high = load_16_bytes(4, data + 128 + part * 32u + (u & 1u) * 16u) >> run * 2u + 2u * skipped;
  const float d = load_half(8, scale);
  const uint64_t scales = data + 192 + part * 8u + run * 2u + (u & 1u);
  const ivec2 two = ivec2(load_byte(9, scales + 2u * skipped), load_byte(10, scales + 4u));
  const vec2 both = d * vec2(bitfieldExtract(two, 0, 8));
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(1.5, 64.0);
    of_two_fields(half_of(bytes, i), nibble_of(i), 4, half_of(high, i), nibble_of(i), 2, r.q);
    r.scale = both[i >> 1];
    decoded.octets[i] = r;
  }
}
void decode_iq4_nl(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data);
  const float d = load_half(8, scale);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(0.0, 1.0);
    by_level(half_of(bytes, i), nibble_of(i), r.q);
    r.scale = d;
    decoded.octets[i] = r;
  }
}
void decode_iq4_xs(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uint top = load_word(9, data) >> 16;
  const uint bits = load_byte(10, data + 4 + (u >> 1)) >> (u & 1u) * 4u & 15u | (top >> 2u * u & 3u) << 4;
  decode_iq4_nl(data + 8 + u * 16u, data, u PASS_SPAN);
  [[unroll]] for (int i = 0; i < 4; ++i) decoded.octets[i].scale *= float(int(bits) - 32);
}
void decode_mxfp4(uint64_t data, uint64_t scale, uint u OUT_SPAN) {
  const uvec4 bytes = load_16_bytes(0, data);
  const uint e = load_byte(8, scale);  // half of 2^(e - 127), as the numbers are twice e2m1's
  const float d = uintBitsToFloat(e < 2u ? 0x00200000u << e : e - 1u << 23);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    Octet r = octet(0.0, 32768.0);
    of_e2m1(half_of(bytes, i), nibble_of(i), r.q);
    r.scale = d;
    decoded.octets[i] = r;
  }
}

// Formats with scales of their own: `data` is the span's, and `number` that of value 0 of row `index`.
float group_scale(int octet, uint64_t i) {
  if (SCALES < 3) return number_of_bits(load_bits(4 + octet, p.scales, i, SCALE_DTYPE), SCALE_DTYPE);
  // precise: a product, then a sum, each rounded.
  precise const float product =
      F32Ref(p.zeros + load_byte(4 + octet, p.scales + i) * 4u).v *
      uintBitsToFloat(load_word(8 + octet, p.outer_scales + (i >> 8) * 4));
  precise const float sum = product + uintBitsToFloat(load_word(12, p.code_offset));
  return sum;
}
float group_zero(int octet, uint64_t i) {
  if (SCALES != 2) return 0.0;
  return number_of_bits(load_bits(8 + octet, p.zeros, i, ZERO_DTYPE), ZERO_DTYPE);
}
// Scales and zeros of a span's octets, of which value 0 is number `number` over all rows.
void scaled_by_group(uint64_t number, bool adds INOUT_SPAN) {
  float scale, zero;
  [[unroll]] for (int i = 0; i < SPAN; ++i) {
    if (i == 0 || !ONE_SCALE) {
      const uint64_t group = number + uint(8 * i) >> p.scale_shifts % 32u;
      scale = group_scale(i, group);
      zero = group_zero(i, group);
    }
    decoded.octets[i].scale = scale;
    if (adds)
      decoded.octets[i].offset = zero;
    else
      decoded.octets[i].zero = zero;
  }
}
uvec4 words_of_span(uint64_t data) { return SPAN == 4 ? load_16_bytes(0, data) : uvec4(load_word(0, data)); }
uvec4 bytes_of_span(uint64_t data) { 
  return SPAN == 2 ? load_16_bytes(0, data) : uvec4(load_8_bytes(0, data), 0u, 0u);
}
#ifdef OCTET_BYTES
void by_levels_from_high(uint word, inout uvec2 q) {}
// Eight nibbles in turn: the even ones, then the odd ones.
void of_nibbles(uint word, inout uvec2 q) { q = uvec2(word, word >> 4) & 0x0f0f0f0fu; }
#else
// Eight nibbles of a word as bytes, the first from the high half of its byte.
void by_levels_from_high(uint word, inout float q[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) q[i] = level(bitfieldExtract(word, i / 2 * 8 + 4 - (i & 1) * 4, 4));
}
void of_nibbles(uint word, inout float q[8]) {
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const vec2 pair = unpackHalf2x16(0x3c003c00u | placed(word, 4 * i, 6, 4));
    q[i] = pair.x;
    q[i + 4] = pair.y;
  }
}
#endif
void decode_levels(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  const uvec4 words = words_of_span(data);
  [[unroll]] for (int i = 0; i < SPAN; ++i) {
    decoded.octets[i] = octet(0.0, 1.0);
    by_levels_from_high(words[i], decoded.octets[i].q);
  }
  scaled_by_group(number, false PASS_SPAN);
}
void decode_nibbles(uint64_t data, uint64_t number, float one, bool adds OUT_SPAN) {
  const uvec4 words = words_of_span(data);
  [[unroll]] for (int i = 0; i < SPAN; ++i) {
    decoded.octets[i] = octet(one, 16.0);
    of_nibbles(words[i], decoded.octets[i].q);
  }
  scaled_by_group(number, adds PASS_SPAN);
}
void decode_int4(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  decode_nibbles(data, number, 1.0, false PASS_SPAN);
}
void decode_int4_offset(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  decode_nibbles(data, number, 1.5, true PASS_SPAN);
}
void decode_int8(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  const uvec4 bytes = bytes_of_span(data);
  [[unroll]] for (int i = 0; i < SPAN; ++i) decoded.octets[i] = of_signed_bytes(half_of(bytes, i));
  scaled_by_group(number, false PASS_SPAN);
}
// Bits of float8 are those of a float16, if its exponent has as many bits: of e4m3fn the number divided by 256. Of that
// only NaN, without a sign 0x7f, is none: where each number counts it becomes NaN itself, else the octet's scale does.
#ifdef OCTET_BYTES
void decode_float8(uint64_t data, uint64_t number, int format OUT_SPAN) {}
#else
void decode_float8(uint64_t data, uint64_t number, int format OUT_SPAN) {
  const uvec4 bytes = bytes_of_span(data);
  const bool small = format == E4M3FN;
  bool has_nan[kMostOctets];
  [[unroll]] for (int i = 0; i < SPAN; ++i) {
    Octet r = octet(0.0, small ? 256.0 : 1.0);
    const uvec2 mine = half_of(bytes, i);
    const uvec2 nan = (mine & 0x7f7f7f7fu) + 0x01010101u & 0x80808080u;  // of e4m3fn
    has_nan[i] = small && (nan.x | nan.y) != 0u;
    [[unroll]] for (int j = 0; j < 4; ++j) {
      const uint w = mine[j >> 1];
      const int first = j / 2 * 4 + j % 2;
      const uint two = (j & 1) == 0 ? w << 8 : w;  // in the high bytes of both halves
      const vec2 pair = unpackHalf2x16(small ? two & 0x80008000u | two >> 1 & 0x3f803f80u : two & 0xff00ff00u);
      r.q[first] = pair.x;
      r.q[first + 2] = pair.y;
    }
    if (EACH && small)
      [[unroll]] for (int j = 0; j < 8; ++j)
        if ((nan[j / 4] >> 8 * (j % 4) & 0x80u) != 0u) r.q[j] = uintBitsToFloat(0x7fc00000u);
    decoded.octets[i] = r;
  }
  scaled_by_group(number, false PASS_SPAN);
  if (!EACH && small)
    [[unroll]] for (int i = 0; i < SPAN; ++i)
      decoded.octets[i].scale = has_nan[i] ? uintBitsToFloat(0x7fc00000u) : decoded.octets[i].scale;
}
#endif
void decode_float8_e4m3fn(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  decode_float8(data, number, E4M3FN PASS_SPAN);
}
void decode_float8_e5m2(uint64_t data, uint64_t number, uint u OUT_SPAN) {
  decode_float8(data, number, E5M2 PASS_SPAN);
}

// Sixteen levels: NF4 of QLoRA (arXiv:2305.14314), FP4 of bitsandbytes, and IQ4.
const float kNf4Levels[16] = float[16](-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0);
const float kFp4Levels[16] = float[16](0.0, 0.005208333488553762, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5,
    0.1666666716337204, 0.25, -0.0, -0.005208333488553762, -0.6666666865348816, -1.0, -0.3333333432674408, -0.5,
    -0.1666666716337204, -0.25);
const float kIq4Levels[16] = float[16](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0,
    53.0, 69.0, 89.0, 113.0);
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at, span, run, lanes, levels, \
                         integers)                                                                                 \
  const int kFormat_##name = code;
#include "quantized/formats.def"
// By every invocation of the workgroup, of at least 16.
void prepare_levels() {
  const bool iq4 = FORMAT == kFormat_iq4_nl || FORMAT == kFormat_iq4_xs;
  if (FORMAT != kFormat_nf4 && FORMAT != kFormat_fp4 && !iq4) return;
#ifdef LEVELS_IN_LANES
  const uint t = gl_SubgroupInvocationID % 16u;
  level_of_lane = iq4 ? kIq4Levels[t] : FORMAT == kFormat_nf4 ? kNf4Levels[t] : kFp4Levels[t];
#else
  const uint t = gl_LocalInvocationIndex;
  if (t < 16u) levels[t] = iq4 ? kIq4Levels[t] : FORMAT == kFormat_nf4 ? kNf4Levels[t] : kFp4Levels[t];
  barrier();  // the levels are there
#endif
}

// A row of the weight: where its data begin, and the scales of its blocks, or, where scales have a tensor of their own,
// the number of value 0 in it.
struct Row {
  uint64_t data, scales;
};
Row row_at(uint64_t data, uint64_t index, uint k) {
  if (SCALES != 0) return Row(data, (index >> p.scale_shifts / 32u) * p.scale_row);
  return Row(data, data + uint64_t(k / format_number(kValues)) * format_number(kDataBytes));
}
// Span `u` of a row. Decoders get the address of the block's scale, or the number of the span's first value.
void span_of(Row row, uint u OUT_SPAN) {
  const bool apart = format_number(kValues) < 32u;
  const uint spans = apart ? 1u : format_number(kValues) / (8u * SPAN), block = u / spans;
  const uint64_t data = row.data + uint64_t(block) * (format_number(kDataBytes) * (apart ? SPAN : 1u));
  const uint64_t scale = row.scales + (SCALES != 0 ? u * (SPAN * 8u) : block * format_number(kScaleBytes));
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at, span, run, lanes, levels, \
                         integers)                                                                                 \
  if (FORMAT == code) decoder(data, scale, u % spans PASS_SPAN);
#include "quantized/formats.def"
}
#endif
