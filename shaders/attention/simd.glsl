// For CPUs seen through Vulkan (lavapipe): one subgroup per workgroup, no barrier, no shared memory; a lane owns R
// rows with everything about them in registers, the other operand passes by one row at a time.
//
// There a load by address is a scalar loop over the lanes (40 ns for 8 lanes, uniform or not; 49 ns when it fetches 8
// bytes a lane), while a shuffle by a constant is one instruction. So the lanes fetch a row together, two neighbours
// each, and shuffles make every value uniform; each then feeds R multiply-adds. All loops over D are unrolled, for a
// dynamically indexed private array would go through memory lane by lane.
#ifndef AULE_ATTENTION_ROWS_GLSL
#define AULE_ATTENTION_ROWS_GLSL
#include "attention/attention.glsl"

layout(constant_id = FAMILY_CONSTANTS) const int DP = 64;  // D rounded up to a multiple of 2 * W
layout(constant_id = FAMILY_CONSTANTS + 1) const int DVP = 64;
layout(constant_id = FAMILY_CONSTANTS + 2) const int R = 1;         // rows of a lane: 1, 2 or 4
// 1: all addresses, strides and head sizes allow loads of two; 2: and D = DP, Dv = DVP (15% faster)
layout(constant_id = FAMILY_CONSTANTS + 3) const int PAIR = 1;
// dQ: grad_bias is zeroed float32 [B, H, Lq, Lk].
layout(constant_id = FAMILY_CONSTANTS + 4) const bool GRAD_BIAS = false;

const int W = LOCAL;  // lanes: the subgroup size
const int CHUNK = 2 * W;

vec2 load_two(uint64_t address, bool second) {
  if (PAIR != 0) {
    if (DTYPE == AULE_DT_F32) return uintBitsToFloat(unpackUint2x32(PairRef(address).v));
    uint two = U32Ref(address).v;
    if (DTYPE == AULE_DT_F16) return unpackHalf2x16(two);
    return uintBitsToFloat(uvec2(two << 16, two & 0xffff0000u));
  }
  return vec2(load_float(address, 0, DTYPE), load_float(address, second ? 1 : 0, DTYPE));
}

// Elements {d, d + 1} of the row at `row`; zero past `dim`.
vec2 load_row_pair(uint64_t row, int d, int dim) {
  if (PAIR == 2) return load_two(row + uint64_t(d * ELEM_BYTES), true);
  vec2 x = load_two(row + uint64_t((d < dim ? d : 0) * ELEM_BYTES), d + 1 < dim);
  return vec2(d < dim ? x.x : 0.0, d + 1 < dim ? x.y : 0.0);
}

// Lane l's pair of the chunk at `c`: elements {c + 2l, c + 2l + 1}.
vec2 load_chunk(uint64_t row, int c, int dim) {
  uint64_t lane_bytes = uint64_t(gl_LocalInvocationID.x * uint(2 * ELEM_BYTES));
  if (PAIR == 2) return load_two(row + lane_bytes + uint64_t(c * ELEM_BYTES), true);
  return load_row_pair(row, c + 2 * int(gl_LocalInvocationID.x), dim);
}

void store_row_pair(uint64_t row, int d, int dim, vec2 x) {
  uint64_t address = row + uint64_t(d * ELEM_BYTES);
  if (PAIR != 0) {
    if (PAIR == 2 || d < dim) {
      if (DTYPE == AULE_DT_F32) PairRef(address).v = packUint2x32(floatBitsToUint(x));
      else if (DTYPE == AULE_DT_F16) U32Ref(address).v = packHalf2x16(x);
      else U32Ref(address).v = float_to_bf16(x.x) | (float_to_bf16(x.y) << 16);
    }
  } else {
    if (d < dim) store_float(address, 0, DTYPE, x.x);
    if (d + 1 < dim) store_float(address, 1, DTYPE, x.y);
  }
}

// The driver splits a grid into contiguous halves, one per thread: light and heavy blocks of a causal triangle
// alternate.
int interleave(int i, int n) { return (i & 1) == 0 ? i / 2 : n - 1 - i / 2; }
#endif
