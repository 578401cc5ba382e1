#pragma aule feature subgroup_shuffle
#pragma aule inline
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// out = alpha * a @ b + beta * c, float32, float16, bfloat16 with float32 accumulation; any strides on every side.
// For lavapipe: one subgroup of 8 is the workgroup, no shared memory, no barrier.
//
// A load from memory is what costs there, 64 bits as much as 32. So a load brings two elements where strides allow,
// loads stand among the multiplications, and each value is used as often as registers and the first-level cache permit.
// A workgroup makes R rows x 8*C columns. For each pair of k, lane l holds R/8 pairs of a and C pairs of b, and values
// of a travel to the other lanes by shuffles. Row held: 8i + l, column held: 8j + l; where pairs lie along m or n
// (A_PAIR, B_PAIR 2) row 16*(i/2) + 2l + i%2, columns alike.
// What was tried, and what it gave: docs/ladders/gemm_simd.md
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int R = 32;
layout(constant_id = 2) const int C = 4;
// what one load brings. 0: one element, 1: a pair along k, 2: a pair along m
layout(constant_id = 3) const int A_PAIR = 0;
layout(constant_id = 4) const int B_PAIR = 0;  // likewise, 2: along n
layout(constant_id = 5) const bool HAS_C = false;
const int A_HELD = (R + 7) / 8;  // per lane
layout(local_size_x = 8) in;
#include "common/indexing.glsl"

const int ES = DTYPE == AULE_DT_F32 ? 4 : 2;

vec2 load_pair(uint64_t at) {
  if (DTYPE == AULE_DT_F32) return uintBitsToFloat(unpackUint2x32(uint64_t(I64Ref(at).v)));
  const uint w = U32Ref(at).v;
  if (DTYPE == AULE_DT_F16) return unpackHalf2x16(w);
  return vec2(uintBitsToFloat(w << 16), uintBitsToFloat(w & 0xffff0000u));
}

uint held(int pair, uint start, uint lane, uint i) {
  return pair == 2 ? start + 16 * (i / 2) + 2 * lane + (i & 1) : start + 8 * i + lane;
}
// The same, or the last one (the last pair) below `end`, to read from.
uint readable(int pair, uint start, uint lane, uint i, uint end) {
  return min(held(pair, start, lane, i), pair == 2 ? end - 2 + (i & 1) : end - 1);
}

uint l, batch, m0, n0;
float acc[R][C];

// Rows and columns past the end have computed the last one's values, and store them where that one does: without
// branches here the pipeline compiles three times faster. So c must not be out (the host sees to it).
void store_result() {
  const uint64_t out_start = p.out_ + uint64_t(int64_t(batch) * p.out_batch) * ES;
  const uint64_t c_start = p.c + uint64_t(int64_t(batch) * p.c_batch) * ES;
  uint64_t out_col[C], c_col[C];
  [[unroll]] for (int j = 0; j < C; ++j) {
    const uint col = readable(B_PAIR, n0, l, j, p.n);
    out_col[j] = out_start + uint64_t(int64_t(col) * p.out_n) * ES;
    c_col[j] = c_start + uint64_t(int64_t(col) * p.c_n) * ES;
  }
  [[unroll]] for (int i = 0; i < R; ++i) {
    const uint row = readable(A_PAIR, m0, i % 8, i / 8, p.m);
    const uint64_t out_row = uint64_t(int64_t(row) * p.out_m) * ES, c_row = uint64_t(int64_t(row) * p.c_m) * ES;
    [[unroll]] for (int j = 0; j < C; ++j) {
      float v = p.alpha * acc[i][j];
      if (HAS_C) v += p.beta * load_float(c_col[j] + c_row, 0, DTYPE);
      store_float(out_col[j] + out_row, 0, DTYPE, v);
    }
  }
}

void main() {
  l = gl_LocalInvocationID.x;
  const uint tiles_m = (p.m + R - 1) / R, tiles_n = (p.n + 8 * C - 1) / (8 * C);
  const uint group = linear_group();
  batch = group / (tiles_m * tiles_n);
  if (batch >= p.batches) return;
  const uint tile = group % (tiles_m * tiles_n);
  m0 = (tile / tiles_n) * R;
  n0 = (tile % tiles_n) * 8 * C;

  // Rows and columns past the end read the last valid one and are not stored.
  const uint64_t a_start = p.a + uint64_t(int64_t(batch) * p.a_batch) * ES, a_next = uint64_t(int64_t(p.a_k) * ES);
  const uint64_t b_start = p.b + uint64_t(int64_t(batch) * p.b_batch) * ES, b_next = uint64_t(int64_t(p.b_k) * ES);
  uint64_t a_at[A_HELD], b_at[C];
  [[unroll]] for (int i = 0; i < A_HELD; ++i)
    a_at[i] = a_start + uint64_t(int64_t(readable(A_PAIR, m0, l, i, p.m)) * p.a_m) * ES;
  [[unroll]] for (int j = 0; j < C; ++j)
    b_at[j] = b_start + uint64_t(int64_t(readable(B_PAIR, n0, l, j, p.n)) * p.b_n) * ES;

  [[unroll]] for (int i = 0; i < R; ++i)
    [[unroll]] for (int j = 0; j < C; ++j) acc[i][j] = 0.0;

  for (uint k = 0; k < p.k; k += 2) {
    const bool both = k + 1 < p.k;  // an odd k ends with a half pair, whose other half counts as zero on both sides
    const uint64_t a_second = both ? a_next : uint64_t(0), b_second = both ? b_next : uint64_t(0);
    vec2 x[A_HELD], y[C];  // .x at k, .y at k + 1
    [[unroll]] for (int j = 0; j < C; ++j) {
      if (B_PAIR == 2) {
        if ((j & 1) == 0) {
          const vec2 u = load_pair(b_at[j]), v = load_pair(b_at[j] + b_second);
          y[j] = vec2(u.x, both ? v.x : 0.0);
          if (j + 1 < C) y[j + 1] = vec2(u.y, both ? v.y : 0.0);
        }
      } else if (B_PAIR == 1) {
        y[j] = load_pair(b_at[j]);
      } else {
        y[j] = vec2(load_float(b_at[j], 0, DTYPE), load_float(b_at[j] + b_second, 0, DTYPE));
        y[j].y = both ? y[j].y : 0.0;
      }
      b_at[j] += b_next * 2;
    }
    [[unroll]] for (int h = 0; h < A_HELD; ++h) {
      if (A_PAIR == 2) {
        if ((h & 1) == 0) {
          const vec2 u = load_pair(a_at[h]), v = load_pair(a_at[h] + a_second);
          x[h] = vec2(u.x, both ? v.x : 0.0);
          if (h + 1 < A_HELD) x[h + 1] = vec2(u.y, both ? v.y : 0.0);
        }
      } else if (A_PAIR == 1) {
        x[h] = load_pair(a_at[h]);
      } else {
        x[h] = vec2(load_float(a_at[h], 0, DTYPE), load_float(a_at[h] + a_second, 0, DTYPE));
        x[h].y = both ? x[h].y : 0.0;
      }
      a_at[h] += a_next * 2;
      // These rows' multiplications overlap with the next rows' loads.
      [[unroll]] for (int i = 0; i < 8; ++i) {
        if (8 * h + i < R) {
          const float u = subgroupShuffle(x[h].x, i), v = subgroupShuffle(x[h].y, i);
          [[unroll]] for (int j = 0; j < C; ++j) acc[8 * h + i][j] += u * y[j].x + v * y[j].y;
        }
      }
    }
  }
  store_result();
}
