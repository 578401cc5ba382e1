#pragma aule feature subgroup_shuffle
#extension GL_KHR_shader_subgroup_basic : require
// out = alpha * a @ b + beta * c over STEP values of k, float32; any strides on every side. c may be out: the host
// walks a long k by launches that each add to out.
// For lavapipe: no loop and no branch, so that loads are one instruction each (common/uniform.glsl). A workgroup is one
// subgroup of 8 and makes R rows x 16 columns; lane l holds columns 2l and 2l + 1. For each k a row of b is one or two
// vectors, and each value of a a memory operand: three instructions for 8 multiply-adds. Grid: tiles of n, tiles of m,
// batches. n is a multiple of 16; rows past m repeat the last.
// What was tried, and what it gave: docs/ladders/gemm_simd_unrolled.md
#include "common/dtype.glsl"

layout(constant_id = 0) const int R = 8;
layout(constant_id = 1) const int STEP = 64;
layout(constant_id = 2) const int A_UNIT = 0;    // 1: a_k is 1, 2: a_m is 1 (then offsets are immediate operands)
layout(constant_id = 3) const int B_UNIT = 0;    // 1: b_k is 1, 2: b_n is 1 and rows of b are aligned to 8 bytes
layout(constant_id = 4) const bool OUT_PAIR = false;  // out_n and c_n are 1 and the rows aligned to 8 bytes
layout(constant_id = 5) const bool BATCHED = false;
layout(local_size_x = 8) in;

struct Params {
  uint64_t a, b, c, out_;
  uint a_batch, b_batch, c_batch, out_batch;
  uint a_m, a_k, b_k, b_n, c_m, c_n, out_m, out_n;
  uint m;
  float alpha, beta;
  uint digits[8];
};
#include "common/params.glsl"
#include "common/uniform.glsl"

uint64_t offset(uint count, uint stride) { return uint64_t(count) * uint64_t(stride) * 4; }

void main() {
  const uint n0 = as_uniform(gl_WorkGroupID.x, 4) * 16, m0 = as_uniform(gl_WorkGroupID.y, 4) * R;
  uint batch = 0;
  if (BATCHED) batch = as_uniform(gl_WorkGroupID.z, 4);

  const uint64_t a_next = offset(1, p.a_k), b_next = offset(1, p.b_k), b_col = offset(1, p.b_n);
  uint64_t a = p.a + offset(batch, p.a_batch), b = p.b + offset(batch, p.b_batch) + offset(n0, p.b_n);
  if (A_UNIT == 2) a += offset(m0, p.a_m);
  uint row[R];
  uint64_t a_row[R], b_even[8], b_odd[8];
  float x[R], y[R];  // of the two columns
  [[unroll]] for (int i = 0; i < R; ++i) {
    row[i] = min(m0 + i, p.m - 1);
    a_row[i] = a + offset(row[i], p.a_m);
    x[i] = 0.0;
    y[i] = 0.0;
  }
  [[unroll]] for (int l = 0; l < 8; ++l) {
    b_even[l] = b + b_col * (2 * l);
    b_odd[l] = b_even[l] + b_col;
  }
  [[unroll]] for (int k = 0; k < STEP; ++k) {
    vec2 v;
    if (B_UNIT == 2) {
      v = uintBitsToFloat(unpackUint2x32(load_lanes_64(b, 8)));
      b += b_next;
    } else {
      float even[8], odd[8];
      [[unroll]] for (int l = 0; l < 8; ++l) {
        even[l] = F32Ref(b_even[l] + (B_UNIT == 1 ? 4 * k : 0)).v;
        odd[l] = F32Ref(b_odd[l] + (B_UNIT == 1 ? 4 * k : 0)).v;
        if (B_UNIT == 0) {
          b_even[l] += b_next;
          b_odd[l] += b_next;
        }
      }
      v = vec2(by_lane(even), by_lane(odd));
    }
    [[unroll]] for (int i = 0; i < R; ++i) {
      float u;
      if (A_UNIT == 2) u = F32Ref(a + 4 * i).v;
      else if (A_UNIT == 1) u = F32Ref(a_row[i] + 4 * k).v;
      else u = F32Ref(a_row[i] + a_next * k).v;
      x[i] += u * v.x;
      y[i] += u * v.y;
    }
    if (A_UNIT == 2) a += a_next;
  }

  const uint64_t c = p.c + offset(batch, p.c_batch) + offset(n0, p.c_n), c_col = offset(1, p.c_n);
  [[unroll]] for (int i = 0; i < R; ++i) {
    const uint64_t at = c + offset(row[i], p.c_m);
    vec2 old;
    if (OUT_PAIR) old = uintBitsToFloat(unpackUint2x32(load_lanes_64(at, 8)));
    else old = vec2(load_lanes(at, c_col * 2), load_lanes(at + c_col, c_col * 2));
    x[i] = p.alpha * x[i] + mix(p.beta * old.x, 0.0, p.beta == 0.0);
    y[i] = p.alpha * y[i] + mix(p.beta * old.y, 0.0, p.beta == 0.0);
  }
  // Repeated rows have read c by now.
  uint64_t col = p.out_ + offset(batch, p.out_batch) + offset(n0 + 2 * gl_SubgroupInvocationID, p.out_n);
  [[unroll]] for (int i = 0; i < R; ++i) {
    const uint64_t at = col + offset(row[i], p.out_m);
    if (OUT_PAIR) {
      WordRef(at).v = packUint2x32(floatBitsToUint(vec2(x[i], y[i])));
    } else {
      F32Ref(at).v = x[i];
      F32Ref(at + offset(1, p.out_n)).v = y[i];
    }
  }
}
