// out = alpha * a @ b + beta * c for few rows of a, 1 to 8 at a time; float32, float16, bfloat16 with float32
// accumulation. Bound by reading b: every load of it is 16 bytes, E = 4 or 8 elements. Rows of a are k-major; strides
// and addresses of a and b are multiples of 16 bytes.
//
// B_K_MAJOR 1: 4 columns (2 from 5 rows on) belong to SLICE neighbours, which take turns with the vec16bs along k.
// B_K_MAJOR 0: E columns belong to SLICE invocations, which take turns with E rows of b each; their 256 / SLICE
// neighbours read the next columns.
// Workgroups of the same columns and further rows are neighbours, so that b is read from memory once.
// What was tried, and what it gave: docs/ladders/gemv_wide.md
#include "common/dtype.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int ROWS = 1;  // 1, 2, 4 or 8, at least m
layout(constant_id = 2) const bool B_K_MAJOR = true;
layout(constant_id = 3) const bool HAS_C = false;
layout(constant_id = 4) const uint SLICE = 64;
layout(constant_id = 5) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 6) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "matmul/epilogue.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };

const uint ES = DTYPE == AULE_DT_F32 ? 4 : 2, E = 16 / ES;
const int COLS = ROWS <= 4 ? 4 : 2;
const int SUMS = B_K_MAJOR ? ROWS * COLS : ROWS * int(E);  // of an invocation
const uint SHARED = 256 / SLICE;                               // column groups of a workgroup
shared float partial[8 * 257];

float element(uvec4 v, uint i) {
  if (DTYPE == AULE_DT_F32) return uintBitsToFloat(v[i & 3]);
  if (DTYPE == AULE_DT_F16) return unpackHalf2x16(v[i / 2])[i & 1];
  return uintBitsToFloat((i & 1) == 0 ? v[i / 2] << 16 : v[i / 2] & 0xffff0000u);
}

uint64_t bytes(int64_t elements) { return uint64_t(elements * int64_t(ES)); }

void main() {
  const uint per_group = B_K_MAJOR ? SHARED * COLS : SHARED * E;
  const uint tiles_m = (p.m + ROWS - 1) / ROWS, tiles_n = (p.n + per_group - 1) / per_group;
  const uint group = linear_group(), batch = group / (tiles_m * tiles_n);
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x;
  const uint column = B_K_MAJOR ? t / SLICE : t % SHARED, slice = B_K_MAJOR ? t % SLICE : t / SHARED;
  const uint m0 = group % tiles_m * ROWS, n0 = group / tiles_m % tiles_n * per_group;
  uint64_t a_at[ROWS];
  [[unroll]] for (int i = 0; i < ROWS; ++i)
    a_at[i] = p.a + bytes(int64_t(batch) * p.a_batch + int64_t(min(m0 + i, p.m - 1)) * p.a_m);
  const uint64_t b_at = p.b + bytes(int64_t(batch) * p.b_batch);

  float sums[SUMS];
  [[unroll]] for (int i = 0; i < SUMS; ++i) sums[i] = 0.0;
  const uint vec16bs = p.k / E;
  if (B_K_MAJOR) {
    uint64_t row_at[COLS];
    [[unroll]] for (int j = 0; j < COLS; ++j)
      row_at[j] = b_at + bytes(int64_t(min(n0 + column * COLS + j, p.n - 1)) * p.b_n);
    for (uint i = slice; i < vec16bs; i += SLICE) {
      uvec4 y[COLS], x[ROWS];
      [[unroll]] for (int j = 0; j < COLS; ++j) y[j] = Vec16b(row_at[j] + i * 16).v;
      [[unroll]] for (int r = 0; r < ROWS; ++r) x[r] = Vec16b(a_at[r] + i * 16).v;
      [[unroll]] for (uint e = 0; e < E; ++e)
        [[unroll]] for (int r = 0; r < ROWS; ++r)
          [[unroll]] for (int j = 0; j < COLS; ++j) sums[r * COLS + j] += element(x[r], e) * element(y[j], e);
    }
  } else {
    const uint64_t column_at = b_at + min(n0 / E + column, p.n / E - 1) * 16;
    for (uint i = slice; i < vec16bs; i += SLICE) {
      uvec4 y[E], x[ROWS];
      [[unroll]] for (uint e = 0; e < E; ++e) y[e] = Vec16b(column_at + bytes(int64_t(i * E + e) * p.b_k)).v;
      [[unroll]] for (int r = 0; r < ROWS; ++r) x[r] = Vec16b(a_at[r] + i * 16).v;
      [[unroll]] for (uint e = 0; e < E; ++e)
        [[unroll]] for (int r = 0; r < ROWS; ++r)
          [[unroll]] for (uint j = 0; j < E; ++j) sums[r * E + j] += element(x[r], e) * element(y[e], j);
    }
    // k past the last whole vec16b
    const uint k = vec16bs * E + slice;
    if (k < p.k) {
      const uvec4 y = Vec16b(column_at + bytes(int64_t(k) * p.b_k)).v;
      [[unroll]] for (int r = 0; r < ROWS; ++r)
        [[unroll]] for (uint j = 0; j < E; ++j) sums[r * E + j] += load_float(a_at[r], k, DTYPE) * element(y, j);
    }
  }

  // Eight values of each invocation at a time. One of them and of a column group is added by PARTS invocations of SLICE
  // / PARTS partial sums each; then the first of them adds the parts.
  const uint VALUES = 8, PARTS = max(256 / (VALUES * SHARED), 1);
  [[unroll]] for (uint first = 0; first < SUMS; first += VALUES) {
    barrier();  // the sums before are read
    [[unroll]] for (uint v = 0; v < VALUES; ++v)
      if (first + v < SUMS) partial[v * 257 + column * SLICE + slice] = sums[first + v];
    barrier();  // these are written
    const uint part = t % PARTS, mine = t / PARTS % SHARED, value = t / PARTS / SHARED;
    const uint from = value * 257 + mine * SLICE + part * (SLICE / PARTS);
    float sum = 0.0;
    if (value < VALUES && first + value < SUMS)
      for (uint i = 0; i < SLICE / PARTS; ++i) sum += partial[from + i];
    barrier();  // and read
    if (value < VALUES) partial[value * 257 + mine * SLICE + part] = sum;
    barrier();  // the parts are written
    if (value < VALUES && part == 0 && first + value < SUMS) {
      sum = 0.0;
      for (uint i = 0; i < PARTS; ++i) sum += partial[value * 257 + mine * SLICE + i];
      const uint which = first + value, wide = B_K_MAJOR ? COLS : E;
      const uint row = m0 + which / wide, n = n0 + mine * wide + which % wide;
      if (row < p.m && n < p.n) finish(batch, row, n, sum);
    }
  }
}
