#pragma aule feature subgroup_shuffle
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// out = alpha * a @ b + beta * c, float32, float16, bfloat16 with float32 accumulation; any strides on every side.
// For lavapipe: one subgroup of 8 is the workgroup, no shared memory, no barrier.
//
// What llvmpipe 22.3 likes, measured: a load from memory is a loop over the 8 lanes whatever the address pattern (about 160
// cycles), a 64-bit load costs the same as a 32-bit one, a shuffle or a multiply-add costs a few cycles. So every
// load brings two elements where strides allow, each is used as often as registers and the first-level cache permit, and
// values travel between lanes by shuffles.
// A workgroup makes R rows x 8*C columns. Lane l holds a[row][k0 + 2l, +1] for the R rows, and C columns of b.
// Columns: 8j + l, or, when b's pairs lie along n (B_PAIR 2), 16*(j/2) + 2l + j%2.
// 512^3 float32, two busy cores: one column per lane, 8 rows, plain loads 591 ms; 16 x 2, broadcast a 81 ms; this, 32 x 4: see benchmarks.
#include "common/dtype.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(constant_id = 0) const int DT = 0;
layout(constant_id = 1) const int R = 32;
layout(constant_id = 2) const int C = 4;
layout(constant_id = 3) const int A_PAIR = 0;  // 1: pairs of a along k are aligned and adjacent
layout(constant_id = 4) const int B_PAIR = 0;  // 1: pairs of b along k, 2: pairs along n
layout(constant_id = 5) const int HAS_C = 0;
layout(local_size_x = 8) in;
#include "common/indexing.glsl"

const int ES = DT == AULE_DT_F32 ? 4 : 2;

vec2 load_pair(uint64_t at) {
  if (DT == AULE_DT_F32) return uintBitsToFloat(unpackUint2x32(uint64_t(I64Ref(at).v)));
  const uint w = U32Ref(at).v;
  if (DT == AULE_DT_F16) return unpackHalf2x16(w);
  return vec2(uintBitsToFloat(w << 16), uintBitsToFloat(w & 0xffff0000u));
}

uint column(uint n0, uint lane, int j) {
  return B_PAIR == 2 ? n0 + 16 * (j / 2) + 2 * lane + (j & 1) : n0 + 8 * j + lane;
}

void main() {
  const uint l = gl_LocalInvocationID.x;
  const uint tiles_m = (p.m + R - 1) / R, tiles_n = (p.n + 8 * C - 1) / (8 * C);
  const uint group = linear_group();
  const uint batch = group / (tiles_m * tiles_n);
  if (batch >= p.batches) return;
  const uint tile = group % (tiles_m * tiles_n);
  const uint m0 = (tile % tiles_m) * R, n0 = (tile / tiles_m) * 8 * C;

  // Rows and columns past the end read the last valid one and are not stored.
  const uint64_t a_start = p.a + uint64_t(int64_t(batch) * p.a_batch + int64_t(m0) * p.a_m) * ES;
  const uint64_t a_row = uint64_t(int64_t(p.a_m) * ES), a_next = uint64_t(int64_t(p.a_k) * ES);
  const uint64_t b_start = p.b + uint64_t(int64_t(batch) * p.b_batch) * ES;
  const uint64_t b_next = uint64_t(int64_t(p.b_k) * ES);
  uint64_t b_at[C];
  [[unroll]] for (int j = 0; j < C; ++j)
    b_at[j] = b_start + uint64_t(int64_t(min(column(n0, l, j), p.n - 1)) * p.b_n) * ES;
  uint64_t a_at = a_start + a_next * (2 * l);

  float acc[R][C];
  [[unroll]] for (int i = 0; i < R; ++i)
    [[unroll]] for (int j = 0; j < C; ++j) acc[i][j] = 0.0;

  for (uint k0 = 0; k0 < p.k; k0 += 16) {
    const bool first = k0 + 2 * l < p.k, second = k0 + 2 * l + 1 < p.k;
    vec2 x[R];
    uint64_t at = first ? a_at : a_start;
    const uint64_t a_second = second ? a_next : uint64_t(0);
    [[unroll]] for (int i = 0; i < R; ++i) {
      vec2 v;
      if (A_PAIR != 0) v = load_pair(at);
      else v = vec2(load_float(at, 0, DT), load_float(at + a_second, 0, DT));
      x[i] = vec2(first ? v.x : 0.0, second ? v.y : 0.0);
      at += m0 + i + 1 < p.m ? a_row : uint64_t(0);
    }
    a_at += a_next * 16;

    const uint steps = min(8u, (p.k - k0 + 1) / 2);
    [[dont_unroll]] for (uint q = 0; q < steps; ++q) {
      const bool both = k0 + 2 * q + 1 < p.k;
      const uint64_t b_second = both ? b_next : uint64_t(0);
      vec2 y[C];
      if (B_PAIR == 2) {
        [[unroll]] for (int j = 0; j + 1 < C; j += 2) {
          const vec2 u = load_pair(b_at[j]), v = load_pair(b_at[j] + b_second);
          y[j] = vec2(u.x, both ? v.x : 0.0);
          y[j + 1] = vec2(u.y, both ? v.y : 0.0);
          b_at[j] += b_next * 2;
        }
      } else {
        [[unroll]] for (int j = 0; j < C; ++j) {
          vec2 v;
          if (B_PAIR == 1) v = load_pair(b_at[j]);
          else v = vec2(load_float(b_at[j], 0, DT), load_float(b_at[j] + b_second, 0, DT));
          y[j] = vec2(v.x, both ? v.y : 0.0);
          b_at[j] += b_next * 2;
        }
      }
      [[unroll]] for (int i = 0; i < R; ++i) {
        const float u = subgroupShuffle(x[i].x, q), v = subgroupShuffle(x[i].y, q);
        [[unroll]] for (int j = 0; j < C; ++j) acc[i][j] += u * y[j].x + v * y[j].y;
      }
    }
  }

  uint64_t out_at = p.out_ + uint64_t(int64_t(batch) * p.out_batch + int64_t(m0) * p.out_m) * ES;
  uint64_t c_at = p.c + uint64_t(int64_t(batch) * p.c_batch + int64_t(m0) * p.c_m) * ES;
  [[unroll]] for (int i = 0; i < R; ++i) {
    if (m0 + i < p.m) {
      [[unroll]] for (int j = 0; j < C; ++j) {
        const uint col = column(n0, l, j);
        if (col < p.n) {
          float v = p.alpha * acc[i][j];
          if (HAS_C != 0) v += p.beta * load_float(c_at + uint64_t(int64_t(col) * p.c_n) * ES, 0, DT);
          store_float(out_at + uint64_t(int64_t(col) * p.out_n) * ES, 0, DT, v);
        }
      }
    }
    out_at += uint64_t(int64_t(p.out_m) * ES);
    c_at += uint64_t(int64_t(p.c_m) * ES);
  }
}
