// Decoders of quantized weights (formats.def). Eight neighbours along k are an octet: w = scale * q + offset, where q
// are exact, and scale and offset are the octet's own. The kernel has declared FORMAT, SCALES, SCALE_DTYPE, ZERO_DTYPE
// and Params. Where scales have tensors of their own, that of value j of row i is number
// ((i >> scale_shifts / 32) * scale_row + j) >> scale_shifts % 32. SCALES:
//   1  scales, of SCALE_DTYPE
//   2  scales, and zeros of ZERO_DTYPE: w = scale * (q - zero); of int4_offset w = scale * q + zero
//   3  codes of a byte, which stand for zeros[code] * outer_scales[number / 256] + *code_offset
#ifndef AULE_QUANTIZED_DECODE_GLSL
#define AULE_QUANTIZED_DECODE_GLSL
#include "common/dtype.glsl"
#include "common/float8.glsl"

struct Octet {
  float q[8];
  float scale, offset;
};

const int kValues = 0, kDataBytes = 1, kScaleBytes = 2;
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at) \
  if (FORMAT == code) return uint[3](values, data_bytes, scale_bytes)[column];
uint format_number(int column) {
#include "quantized/formats.def"
  return 1;
}

uvec2 load_8_bytes(uint64_t at) { return U32x2Ref(at).v; }
uint load_byte(uint64_t at) { return uint(U8Ref(at).v); }
float load_half(uint64_t at) { return float(F16Ref(at).v); }
vec2 load_2_halves(uint64_t at) { return unpackHalf2x16(U32Ref(at).v); }

// Bits `shift` to `shift` + `bits` of each of eight bytes.
void fields(uvec2 bytes, int shift, int bits, out uint x[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) x[i] = bitfieldExtract(bytes[i / 4], 8 * (i % 4) + shift, bits);
}
void minus(uint x[8], int zero, out float q[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) q[i] = float(int(x[i]) - zero);
}
// A block of 32 nibbles has its first half in the low ones.
void halves_of_32(uint64_t data, uint o, out uint x[8]) {
  fields(load_8_bytes(data + (o & 1u) * 8u), int(o >> 1) * 4, 4, x);
}
// Eight bytes as signed numbers, minus a zero.
void signed_bytes(uint64_t at, float zero, out float q[8]) {
  const uvec2 bytes = load_8_bytes(at);
  [[unroll]] for (int i = 0; i < 8; ++i) q[i] = float(bitfieldExtract(int(bytes[i / 4]), 8 * (i % 4), 8)) - zero;
}
// Puts higher bits before those that are there.
void put_before(uint high[8], int shift, inout uint x[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) x[i] |= high[i] << shift;
}
void scaled_by(float scale, inout Octet r) {
  r.scale = scale;
  r.offset = 0.0;
}
// By two float16 numbers: a scale, and what is added.
void scaled_by_halves(uint64_t at, inout Octet r) {
  const vec2 d = load_2_halves(at);
  r.scale = d.x;
  r.offset = d.y;
}
// Adds one more bit to each: bit `o` * 8 + i of a word.
void fifth_bits(uint word, uint o, inout uint x[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) x[i] |= bitfieldExtract(word, int(o) * 8 + i, 1) << 4;
}
// 16 levels as bytes.
float level(uvec4 levels, uint i) { return float(bitfieldExtract(int(levels[i >> 2]), int(i & 3u) * 8, 8)); }
const uvec4 kIq4Levels = uvec4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
const uvec4 kFp4Levels = uvec4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);  // of e2m1, twice
void by_level(uvec4 levels, uint x[8], out float q[8]) {
  [[unroll]] for (int i = 0; i < 8; ++i) q[i] = level(levels, x[i]);
}

// Each decoder: octet `o` of the block whose data and scale are at these addresses.

Octet decode_q4_0(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data, o, x);
  minus(x, 8, r.q);
  scaled_by(load_half(scale), r);
  return r;
}
Octet decode_q4_1(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data + 4, o, x);
  minus(x, 0, r.q);
  scaled_by_halves(data, r);
  return r;
}
Octet decode_q5_0(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data + 4, o, x);
  fifth_bits(U32Ref(data).v, o, x);
  minus(x, 16, r.q);
  scaled_by(load_half(scale), r);
  return r;
}
Octet decode_q5_1(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data + 8, o, x);
  fifth_bits(U32Ref(data + 4).v, o, x);
  minus(x, 0, r.q);
  scaled_by_halves(data, r);
  return r;
}
Octet decode_q8_0(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  signed_bytes(data + o * 8u, 0.0, r.q);
  scaled_by(load_half(scale), r);
  return r;
}

// Blocks of 256. Those of 2 and 3 bits: 32 bytes have four runs of 32 values in their fields of 2 bits.
void quarters(uint64_t data, uint o, out uint x[8]) {
  fields(load_8_bytes(data + (o >> 4) * 32u + (o & 3u) * 8u), int(o >> 2 & 3u) * 2, 2, x);
}
Octet decode_q2_k(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  quarters(data + 16, o, x);
  minus(x, 0, r.q);
  const uint s = load_byte(data + (o >> 1));
  const vec2 d = load_2_halves(data + 80);
  r.scale = d.x * float(s & 15u);
  r.offset = -(d.y * float(s >> 4));
  return r;
}
Octet decode_q3_k(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8], high[8];
  quarters(data + 32, o, x);
  fields(load_8_bytes(data + (o & 3u) * 8u), int(o >> 2), 1, high);
  put_before(high, 2, x);
  minus(x, 4, r.q);
  const uint j = o >> 1;  // of 16 scales of 6 bits
  const uint low = load_byte(data + 96 + (j & 7u)) >> (j >> 3) * 4u & 15u;
  const uint top = load_byte(data + 104 + (j & 3u)) >> (j >> 2) * 2u & 3u;
  scaled_by(load_half(scale) * float(int(low | top << 4) - 32), r);
  return r;
}
// Scale and minimum `j` of 8, 6 bits each, in 12 bytes.
uvec2 six_bits(uint64_t scales, uint j) {
  const uint a = load_byte(scales + (j & 3u)), b = load_byte(scales + 4 + (j & 3u));
  if (j < 4u) return uvec2(a & 63u, b & 63u);
  const uint c = load_byte(scales + 4 + j);
  return uvec2(c & 15u | a >> 2 & 48u, c >> 4 | b >> 2 & 48u);
}
void scales_of_32(uint64_t data, uint o, inout Octet r) {
  const uvec2 s = six_bits(data + 4, o >> 2);
  const vec2 d = load_2_halves(data);
  r.scale = d.x * float(s.x);
  r.offset = -(d.y * float(s.y));
}
// 32 bytes have two runs of 32 values in their nibbles.
void pairs_of_32(uint64_t data, uint o, out uint x[8]) {
  fields(load_8_bytes(data + (o >> 3) * 32u + (o & 3u) * 8u), int(o >> 2 & 1u) * 4, 4, x);
}
Octet decode_q4_k(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  pairs_of_32(data + 16, o, x);
  minus(x, 0, r.q);
  scales_of_32(data, o, r);
  return r;
}
Octet decode_q5_k(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8], high[8];
  pairs_of_32(data + 48, o, x);
  fields(load_8_bytes(data + 16 + (o & 3u) * 8u), int(o >> 2), 1, high);
  put_before(high, 4, x);
  minus(x, 0, r.q);
  scales_of_32(data, o, r);
  return r;
}
Octet decode_q6_k(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8], high[8];
  const uint part = o >> 4, t = o & 15u;
  fields(load_8_bytes(data + part * 64u + (t & 7u) * 8u), int(t >> 3) * 4, 4, x);
  fields(load_8_bytes(data + 128 + part * 32u + (t & 3u) * 8u), int(t >> 2) * 2, 2, high);
  put_before(high, 4, x);
  minus(x, 32, r.q);
  scaled_by(load_half(scale) * float(int(I8Ref(data + 192 + (o >> 1)).v)), r);
  return r;
}
Octet decode_iq4_nl(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data, o, x);
  by_level(kIq4Levels, x, r.q);
  scaled_by(load_half(scale), r);
  return r;
}
Octet decode_iq4_xs(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  const uint j = o >> 2, top = U32Ref(data).v >> 16;
  halves_of_32(data + 8 + j * 16u, o & 3u, x);
  by_level(kIq4Levels, x, r.q);
  const uint s = load_byte(data + 4 + (j >> 1)) >> (j & 1u) * 4u & 15u | (top >> 2u * j & 3u) << 4;
  scaled_by(load_half(data) * float(int(s) - 32), r);
  return r;
}
Octet decode_mxfp4(uint64_t data, uint64_t scale, uint o) {
  Octet r;
  uint x[8];
  halves_of_32(data, o, x);
  by_level(kFp4Levels, x, r.q);
  const uint e = load_byte(scale);  // half of 2^(e - 127), as the levels are twice e2m1's
  scaled_by(uintBitsToFloat(e < 2u ? 0x00200000u << e : e - 1u << 23), r);
  return r;
}

// Sixteen levels of bitsandbytes: NF4 of QLoRA (arXiv:2305.14314), and FP4, twelfths of numbers of two exponent bits.
const float kNf4Levels[16] = float[16](-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0);
const float kFp4Twelfths[8] = float[8](0.0, 0.005208333488553762, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5,
    0.1666666716337204, 0.25);

float group_scale(uint64_t i) {
  if (SCALES < 3) return load_float(p.scales, i, SCALE_DTYPE);
  // precise: a product, then a sum, each rounded.
  precise const float product =
      F32Ref(p.zeros + load_byte(p.scales + i) * 4u).v * F32Ref(p.outer_scales + (i >> 8) * 4).v;
  precise const float sum = product + F32Ref(p.code_offset).v;
  return sum;
}
float group_zero(uint64_t i) { return SCALES == 2 ? load_float(p.zeros, i, ZERO_DTYPE) : 0.0; }
// Of two values in a byte the first is in the high nibble.
void nibbles_from_high(uint64_t data, out uint x[8]) {
  const uint word = U32Ref(data).v;
  [[unroll]] for (int i = 0; i < 8; ++i) x[i] = bitfieldExtract(word, (i / 2) * 8 + 4 - (i & 1) * 4, 4);
}
Octet decode_nf4(uint64_t data, uint64_t i, uint o) {
  Octet r;
  uint x[8];
  nibbles_from_high(data, x);
  [[unroll]] for (int j = 0; j < 8; ++j) r.q[j] = kNf4Levels[x[j]];
  scaled_by(group_scale(i), r);
  return r;
}
Octet decode_fp4(uint64_t data, uint64_t i, uint o) {
  Octet r;
  uint x[8];
  nibbles_from_high(data, x);
  [[unroll]] for (int j = 0; j < 8; ++j) r.q[j] = x[j] < 8u ? kFp4Twelfths[x[j]] : -kFp4Twelfths[x[j] - 8u];
  scaled_by(group_scale(i), r);
  return r;
}
// Groups of 4 bits, of two in a byte the first in the low nibble.
Octet decode_int4(uint64_t data, uint64_t i, uint o) {
  Octet r;
  const uint word = U32Ref(data).v;
  const float zero = group_zero(i);
  [[unroll]] for (int j = 0; j < 8; ++j) r.q[j] = float(bitfieldExtract(word, 4 * j, 4)) - zero;
  scaled_by(group_scale(i), r);
  return r;
}
Octet decode_int4_offset(uint64_t data, uint64_t i, uint o) {
  Octet r;
  const uint word = U32Ref(data).v;
  [[unroll]] for (int j = 0; j < 8; ++j) r.q[j] = float(int(bitfieldExtract(word, 4 * j, 4)) - 8);
  r.scale = group_scale(i);
  r.offset = group_zero(i);
  return r;
}
Octet decode_int8(uint64_t data, uint64_t i, uint o) {
  Octet r;
  signed_bytes(data, group_zero(i), r.q);
  scaled_by(group_scale(i), r);
  return r;
}
Octet decode_float8(uint64_t data, uint64_t i, int format) {
  Octet r;
  const uvec2 bytes = load_8_bytes(data);
  [[unroll]] for (int j = 0; j < 8; ++j) r.q[j] = decode_float8(bitfieldExtract(bytes[j / 4], 8 * (j % 4), 8), format);
  scaled_by(group_scale(i), r);
  return r;
}
Octet decode_float8_e4m3fn(uint64_t data, uint64_t i, uint o) { return decode_float8(data, i, E4M3FN); }
Octet decode_float8_e5m2(uint64_t data, uint64_t i, uint o) { return decode_float8(data, i, E5M2); }

// Octet `o` of row `index`, which begins at `row` and has k values. Decoders get the address of the block's scale, or,
// where scales have a tensor of their own, the number of the scale in it.
Octet octet_of(uint64_t row, uint64_t index, uint k, uint o) {
  const uint octets = format_number(kValues) / 8u, block = o / octets;
  const uint64_t data = row + uint64_t(block) * format_number(kDataBytes);
  const uint64_t in_row = uint64_t(k / format_number(kValues)) * format_number(kDataBytes) +
                          uint64_t(block) * format_number(kScaleBytes);
  const uint64_t number = (index >> p.scale_shifts / 32u) * p.scale_row + o * 8u >> p.scale_shifts % 32u;
  const uint64_t scale = SCALES != 0 ? number : row + in_row;
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at) \
  if (FORMAT == code) return decoder(data, scale, o % octets);
#include "quantized/formats.def"
  return decode_q4_0(data, scale, o);
}
#endif
