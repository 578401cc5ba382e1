// For software devices (lavapipe): one subgroup per workgroup, no barrier, no shared memory. A lane owns ROWS rows,
// with all their values in registers. The other operand passes one row at a time.
//
// On lavapipe 22.3 a load by address is a scalar loop over the lanes (40 ns for 8 lanes, uniform or not, 49 ns for 8
// bytes a lane), and a shuffle by a constant is one instruction. So the lanes fetch a row together, two neighbours
// each, and shuffles make every value uniform. Each value then feeds ROWS multiply-adds. All loops over D are unrolled,
// because a dynamically indexed private array goes through memory lane by lane.
#ifndef AULE_ATTENTION_SIMD_GLSL
#define AULE_ATTENTION_SIMD_GLSL
#ifndef ATTENTION_GENERATED  // generated kernels (inductor/flex.glsl) bring their own
#include "attention/parts/attention.glsl"

layout(constant_id = FAMILY_CONSTANTS) const int DP = 64;  // D rounded up to a multiple of 2 * W, Dv likewise
layout(constant_id = FAMILY_CONSTANTS + 1) const int DVP = 64;
layout(constant_id = FAMILY_CONSTANTS + 2) const int ROWS = 1;         // rows of a lane: 1, 2 or 4
layout(constant_id = FAMILY_CONSTANTS + 3) const bool VEC2 = false;  // addresses, strides and sizes allow loads of two
layout(constant_id = FAMILY_CONSTANTS + 4) const bool PADDED = true;  // DP or DVP is more than the head size
// dQ: grad_bias is zeroed float32 [B, H, Lq, Lk].
layout(constant_id = FAMILY_CONSTANTS + 5) const bool GRAD_BIAS = false;
#endif
const bool WHOLE_ROWS = VEC2 && !PADDED;  // loads of two without bounds: 15 % faster

const int W = LOCAL;  // lanes: the subgroup size
#ifndef ATTENTION_GENERATED
// Blocks of a mask that hold the workgroup's rows whole are skipped whole: their elements need not be asked.
bool asks_elements(int mask_side) { return BIAS_DTYPE >= 0 && !(BLOCK_MASK && mask_side % (W * ROWS) == 0); }
uint64_t mask_of(int b, int h) {
  return p.bias + uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
}
#endif
const int COLS_AT_ONCE = 2 * W;

vec2 load_two(uint64_t address, bool second) {
  if (VEC2) {
    if (DTYPE == AULE_DT_F32) return uintBitsToFloat(unpackUint2x32(PairRef(address).v));
    uint two = U32Ref(address).v;
    if (DTYPE == AULE_DT_F16) return unpackHalf2x16(two);
    return uintBitsToFloat(uvec2(two << 16, two & 0xffff0000u));
  }
  return vec2(load_float(address, 0, DTYPE), load_float(address, second ? 1 : 0, DTYPE));
}

// Elements {d, d + 1} of the row at `row`, zeros past `dim`.
vec2 load_row_pair(uint64_t row, int d, int dim) {
  if (WHOLE_ROWS) return load_two(row + uint64_t(d * ELEM_BYTES), true);
  vec2 x = load_two(row + uint64_t((d < dim ? d : 0) * ELEM_BYTES), d + 1 < dim);
  return vec2(d < dim ? x.x : 0.0, d + 1 < dim ? x.y : 0.0);
}

// Lane l's pair of COLS_AT_ONCE columns from `c` on: elements {c + 2l, c + 2l + 1}.
vec2 load_lane_pair(uint64_t row, int c, int dim) {
  uint64_t lane_bytes = uint64_t(gl_LocalInvocationID.x * uint(2 * ELEM_BYTES));
  if (WHOLE_ROWS) return load_two(row + lane_bytes + uint64_t(c * ELEM_BYTES), true);
  return load_row_pair(row, c + 2 * int(gl_LocalInvocationID.x), dim);
}

void store_row_pair(uint64_t row, int d, int dim, vec2 x) {
  uint64_t address = row + uint64_t(d * ELEM_BYTES);
  if (VEC2) {
    if (WHOLE_ROWS || d < dim) {
      if (DTYPE == AULE_DT_F32) PairRef(address).v = packUint2x32(floatBitsToUint(x));
      else if (DTYPE == AULE_DT_F16) U32Ref(address).v = packHalf2x16(x);
      else U32Ref(address).v = float_to_bf16(x.x) | (float_to_bf16(x.y) << 16);
    }
  } else {
    if (d < dim) store_float(address, 0, DTYPE, x.x);
    if (d + 1 < dim) store_float(address, 1, DTYPE, x.y);
  }
}

// lavapipe splits a grid into contiguous parts, one per thread. Light and heavy blocks of a causal triangle alternate,
// so the parts take equally long.
int interleave(int i, int n) { return (i & 1) == 0 ? i / 2 : n - 1 - i / 2; }
#endif
