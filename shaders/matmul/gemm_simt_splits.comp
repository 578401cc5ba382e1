// sums[split] = a @ b over this split's part of k, float32: products of so few tiles that k has to fill the device.
// gemm_splits.comp adds the splits, or whoever asked for the product.
//
// A workgroup of 128 makes 8 * ROWS x 128 of a split, an invocation rows ty*4 + {0..3} (and 32 more on where ROWS is 8)
// and columns tx*4 + {0..3, 64..67}. Steps of 8 k are in shared memory k-major, twice: the next step travels from
// memory through registers into the other half meanwhile, so that a step has one barrier (gemm_simt_large.comp).
// A_VEC, B_VEC 4: 16-byte loads along the side of A_K_MAJOR, B_K_MAJOR; 1: one element at a time.
// sums: [splits][batches][m][n]; workgroups of one split are neighbours.
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE uint k_split;  // of each split: a multiple of 8
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(constant_id = 0) const bool A_K_MAJOR = true;  // a_k is the small stride
layout(constant_id = 1) const bool B_K_MAJOR = false;  // b_k is the small stride
layout(constant_id = 2) const int A_VEC = 4;
layout(constant_id = 3) const int B_VEC = 4;
layout(constant_id = 4) const int ROWS = 8;  // of an invocation: 4 or 8
layout(local_size_x = 128) in;
#include "common/indexing.glsl"

const uint BM = 8 * ROWS, BN = 128, STEP = 8;
const uint PITCH_A = 64 + 4, PITCH_B = BN + 4;
const uint HALF_A = STEP * PITCH_A / 4, HALF_B = STEP * PITCH_B / 4;  // in vec4
shared vec4 tile_a[2 * HALF_A];
shared vec4 tile_b[2 * HALF_B];

uint64_t place(uint64_t base, int64_t row, int row_stride, int64_t k, int k_stride) {
  return base + uint64_t(row * row_stride + k * k_stride) * 4;
}

// Four elements: k to k + 3 of `row`, or rows row to row + 3 of k. Zeros past the ends.
vec4 fetch(uint64_t base, uint row, uint rows, int row_stride, uint k, uint k_end, int k_stride, bool k_major,
           int vec) {
  vec4 v = vec4(0.0);
  if (vec == 4) {
    if (row < rows && k < k_end) v = F32x4Ref(place(base, row, row_stride, k, k_stride)).v;
  } else {
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      const uint r = k_major ? row : row + i, kk = k_major ? k + i : k;
      if (r < rows && kk < k_end) v[i] = F32Ref(place(base, r, row_stride, kk, k_stride)).v;
    }
  }
  return v;
}

#define PUT(tile, first, pitch, v, k_major, row, k)                                                       \
  if (k_major) {                                                                                          \
    [[unroll]] for (uint i = 0; i < 4; ++i) tile[first + ((k + i) * pitch + row) / 4][(row) & 3] = v[i];  \
  } else {                                                                                                \
    tile[first + ((k) * pitch + row) / 4] = v;                                                            \
  }
#define PUT_STEP(half_)                                                                                \
  if (loads_a) { PUT(tile_a, (half_) * HALF_A, PITCH_A, next_a, A_K_MAJOR, a_row, a_k) }               \
  [[unroll]] for (uint x = 0; x < 2; ++x) {                                                            \
    PUT(tile_b, (half_) * HALF_B, PITCH_B, next_b[x], B_K_MAJOR, b_row + x * b_more_rows, b_k + x * b_more_k) \
  }
#define FETCH_STEP(k0)                                                                                       \
  if (loads_a) next_a = fetch(a, m0 + a_row, p.m, p.a_m, (k0) + a_k, k_end, p.a_k, A_K_MAJOR, A_VEC);        \
  [[unroll]] for (uint x = 0; x < 2; ++x)                                                                    \
    next_b[x] = fetch(b, n0 + b_row + x * b_more_rows, p.n, p.b_n, (k0) + b_k + x * b_more_k, k_end, p.b_k,  \
                      B_K_MAJOR, B_VEC);

void main() {
  const uint tiles_n = (p.n + BN - 1) / BN, tiles = (p.m + BM - 1) / BM * tiles_n;
  const uint group = linear_group(), per_split = tiles * p.batches;
  const uint split = group / per_split, batch = group % per_split / tiles, tile = group % tiles;
  const uint k_begin = split * p.k_split, k_end = min(k_begin + p.k_split, p.k);
  if (k_begin >= p.k) return;  // the whole workgroup leaves
  const uint m0 = tile / tiles_n * BM, n0 = tile % tiles_n * BN;
  const uint t = gl_LocalInvocationID.x, tx = t % 16, ty = t / 16;
  const uint64_t a = p.a + uint64_t(int64_t(batch) * p.a_batch) * 4, b = p.b + uint64_t(int64_t(batch) * p.b_batch) * 4;
  const bool loads_a = t < BM * STEP / 4;
  const uint a_row = A_K_MAJOR ? t / 2 : t % (BM / 4) * 4, a_k = A_K_MAJOR ? t % 2 * 4 : t / (BM / 4);
  const uint b_row = B_K_MAJOR ? t / 2 : t % 32 * 4, b_k = B_K_MAJOR ? t % 2 * 4 : t / 32;
  const uint b_more_rows = B_K_MAJOR ? 64 : 0, b_more_k = B_K_MAJOR ? 0 : 4;

  float acc[ROWS][8];
  [[unroll]] for (int i = 0; i < ROWS; ++i)
    [[unroll]] for (int j = 0; j < 8; ++j) acc[i][j] = 0.0;

  vec4 next_a = vec4(0.0), next_b[2];
  FETCH_STEP(k_begin)
  PUT_STEP(0)
  barrier();  // the first step is written
  uint now = 0;
  [[dont_unroll]] for (uint k0 = k_begin; k0 < k_end; k0 += STEP) {
    FETCH_STEP(k0 + STEP)
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
      const uint at_a = now * HALF_A + k * (PITCH_A / 4), at_b = now * HALF_B + k * (PITCH_B / 4);
      const vec4 x0 = tile_a[at_a + ty], x1 = ROWS > 4 ? tile_a[at_a + 8 + ty] : x0;
      const vec4 y0 = tile_b[at_b + tx], y1 = tile_b[at_b + 16 + tx];
      [[unroll]] for (int i = 0; i < ROWS; ++i) {
        const float x = i < 4 ? x0[i & 3] : x1[i & 3];
        [[unroll]] for (int j = 0; j < 8; ++j) acc[i][j] = fma(x, j < 4 ? y0[j & 3] : y1[j & 3], acc[i][j]);
      }
    }
    now ^= 1;
    PUT_STEP(now)
    barrier();  // the next step is written, this one read
  }

  const uint64_t sums = p.out_ + uint64_t(split * p.batches + batch) * p.m * p.n * 4;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const uint row = m0 + ty * 4 + (i < 4 ? i : 28 + i);
    if (row < p.m) {
      [[unroll]] for (int h = 0; h < 2; ++h) {
        const uint col = n0 + tx * 4 + h * 64;
        const uint64_t at = sums + (uint64_t(row) * p.n + col) * 4;
        if (p.n % 4 == 0) {
          if (col < p.n) F32x4Ref(at).v = vec4(acc[i][4 * h], acc[i][4 * h + 1], acc[i][4 * h + 2], acc[i][4 * h + 3]);
        } else {
          [[unroll]] for (uint j = 0; j < 4; ++j)
            if (col + j < p.n) F32Ref(at + 4 * j).v = acc[i][4 * h + j];
        }
      }
    }
  }
}
