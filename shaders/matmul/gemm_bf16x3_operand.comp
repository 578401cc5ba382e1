// float32 matrices as 16-bit pieces x ~ high + low, laid out one after the other along k for one product on the matrix
// units:
//   PIECES 1: [high]   2: [high high low]   3: [high low high], so that 2 @ 3 = high high + high low + low high.
// bfloat16: 8 bits each, float32's range; what low @ low would add, and what the pieces leave, is about 2^-16 of a
// product. An invocation makes 4 neighbours along the inner side, which may be k or not: `piece` leads from one piece
// to the next. Elements from `inner` to `padded` and rows from `outer` to `all_outer` are zeros: pieces of both
// operands are equally long along k. VEC 4: 16-byte loads, neighbours adjacent; 1: any strides. SCALED: one piece of
// float16, of numbers that a power of two brings into its range (half_scale.glsl).
#include "common/dtype.glsl"
#define VEC_ELEMS 4
#include "common/vec8.glsl"
#include "matmul/half_scale.glsl"
layout(constant_id = 0) const int DTYPE = AULE_DT_BF16;
layout(constant_id = 1) const int PIECES = 1;
layout(constant_id = 2) const int VEC = 1;
layout(constant_id = 3) const bool SCALED = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t x, out_;
  int64_t x_batch, x_outer, x_inner, out_batch, out_outer, piece;
  uint outer, all_outer, inner, padded, batches;
  uint64_t largest;  // of the sizes of x
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Vec8b { uvec2 v; };

uint to_16_bits(float v) {
  if (DTYPE == AULE_DT_F16) return float_to_f16(v);  // packHalf2x16 rounds as the driver likes
  const uint bits = floatBitsToUint(v), rounded = float_to_bf16(v);
  // The largest numbers round to infinity: their last bits go to the lower piece instead.
  return (bits & 0x7f800000u) != 0x7f800000u && (rounded & 0x7f80u) == 0x7f80u ? bits >> 16 : rounded;
}
float widen(uint bits) { return DTYPE == AULE_DT_F16 ? unpackHalf2x16(bits).x : bf16_to_float(bits); }

void main() {
  const uint per_row = p.padded / 4;
  const uint64_t id = linear_invocation(), row_of_all = id / per_row;
  if (row_of_all >= uint64_t(p.batches) * p.all_outer) return;
  const uint i = uint(id % per_row) * 4, batch = uint(row_of_all / p.all_outer), row = uint(row_of_all % p.all_outer);
  const uint inner = row < p.outer ? p.inner : 0;
  const uint64_t from = p.x + uint64_t(int64_t(batch) * p.x_batch + int64_t(row) * p.x_outer + int64_t(i) * p.x_inner) *
      4;
  vec4 v = vec4(0.0);
  if (VEC == 4) {
    if (i < inner) v = F32x4Ref(from).v;
  } else {
    [[unroll]] for (int e = 0; e < 4; ++e)
      if (i + e < inner) v[e] = F32Ref(from + uint64_t(int64_t(e) * p.x_inner) * 4).v;
  }
  if (SCALED) v *= power_of_two(half_exponent(F32Ref(p.largest).v));
  uint high[4], low[4];
  [[unroll]] for (int e = 0; e < 4; ++e) {
    high[e] = to_16_bits(v[e]);
    // Infinity and NaN have no lower piece.
    low[e] = (floatBitsToUint(v[e]) & 0x7f800000u) == 0x7f800000u ? 0u : to_16_bits(v[e] - widen(high[e]));
  }
  const uvec2 h = uvec2(high[0] | high[1] << 16, high[2] | high[3] << 16),
      l = uvec2(low[0] | low[1] << 16, low[2] | low[3] << 16);
  const uint64_t to = p.out_ + uint64_t(int64_t(batch) * p.out_batch + int64_t(row) * p.out_outer + i) * 2,
      next = uint64_t(p.piece) * 2;
  Vec8b(to).v = h;
  if (PIECES != 1) {
    Vec8b(to + next).v = PIECES == 2 ? h : l;
    Vec8b(to + 2 * next).v = PIECES == 2 ? l : h;
  }
}
