// out = alpha * a @ b + beta * c, float32, float16, bfloat16 with float32 accumulation; any strides on every side.
//
// Portable kernel for devices with real shared memory. A workgroup of 256 makes a 64 x 64 tile of out: 16 steps of k of
// both operands are staged in shared memory, k-major and 4 floats apart against bank conflicts; an invocation holds 4 x
// 4 accumulators, at rows ty*4 + i and columns tx*4 + j. Consecutive invocations load along whichever stride is 1.
// lavapipe takes gemm_simd.comp: a barrier turns a shader into coroutines there.
#include "common/dtype.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool A_K_MAJOR = true;  // a_k is the small stride
layout(constant_id = 2) const bool B_K_MAJOR = false;  // b_k is the small stride
layout(constant_id = 3) const bool HAS_C = false;
layout(constant_id = 4) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 5) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "matmul/epilogue.glsl"

const uint TILE = 64, STEP = 16, PITCH = TILE + 4;
shared float tile_a[STEP * PITCH];
shared float tile_b[STEP * PITCH];

void main() {
  const uint tiles_m = (p.m + TILE - 1) / TILE, tiles_n = (p.n + TILE - 1) / TILE;
  const uint group = linear_group();
  const uint batch = group / (tiles_m * tiles_n);
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint tile = group % (tiles_m * tiles_n);
  const uint m0 = (tile / tiles_n) * TILE, n0 = (tile % tiles_n) * TILE;
  const uint t = gl_LocalInvocationID.x, tx = t % 16, ty = t / 16;
  const int64_t a_base = int64_t(batch) * p.a_batch, b_base = int64_t(batch) * p.b_batch;

  float acc[4][4];
  [[unroll]] for (int i = 0; i < 4; ++i)
    [[unroll]] for (int j = 0; j < 4; ++j) acc[i][j] = 0.0;

  for (uint k0 = 0; k0 < p.k; k0 += STEP) {
    [[unroll]] for (uint s = 0; s < 4; ++s) {
      const uint e = s * 256 + t;
      const uint ak = A_K_MAJOR ? e % STEP : e / TILE, am = A_K_MAJOR ? e / STEP : e % TILE;
      const uint bk = B_K_MAJOR ? e % STEP : e / TILE, bn = B_K_MAJOR ? e / STEP : e % TILE;
      float x = 0.0, y = 0.0;
      if (m0 + am < p.m && k0 + ak < p.k)
        x = load_float(p.a, uint64_t(a_base + int64_t(m0 + am) * p.a_m + int64_t(k0 + ak) * p.a_k), DTYPE);
      if (n0 + bn < p.n && k0 + bk < p.k)
        y = load_float(p.b, uint64_t(b_base + int64_t(k0 + bk) * p.b_k + int64_t(n0 + bn) * p.b_n), DTYPE);
      tile_a[ak * PITCH + am] = x;
      tile_b[bk * PITCH + bn] = y;
    }
    barrier();  // tiles are written
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
      float x[4], y[4];
      [[unroll]] for (int i = 0; i < 4; ++i) x[i] = tile_a[k * PITCH + ty * 4 + i];
      [[unroll]] for (int j = 0; j < 4; ++j) y[j] = tile_b[k * PITCH + tx * 4 + j];
      [[unroll]] for (int i = 0; i < 4; ++i)
        [[unroll]] for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
    }
    barrier();  // tiles are read before the next step overwrites them
  }

  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint row = m0 + ty * 4 + i;
    [[unroll]] for (int j = 0; j < 4; ++j) {
      const uint col = n0 + tx * 4 + j;
      if (row < p.m && col < p.n) finish(batch, row, col, acc[i][j]);
    }
  }
}
