// out = alpha * a @ b + beta * c, float32, float16, bfloat16 with float32 accumulation; any strides on every side. For
// large results on devices with real shared memory and many registers; gemm_simt.comp makes the small ones.
//
// A workgroup of 256 makes 128 x 128 of out, an invocation rows ty*4 + {0..3, 64..67} and columns tx*4 + {0..3,
// 64..67}: 4 reads of 16 bytes from shared memory for 64 multiply-adds. Steps of 8 k are there k-major, twice: the next
// step travels from memory through registers into the other half meanwhile, so that a step has one barrier.
// A_VEC, B_VEC 4: float32, 16-byte loads along the side of A_K_MAJOR, B_K_MAJOR; 1: one element at a time.
// What was tried, and what it gave: docs/ladders/gemm_simt_large.md
#include "common/dtype.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool A_K_MAJOR = true;  // a_k is the small stride
layout(constant_id = 2) const bool B_K_MAJOR = false;  // b_k is the small stride
layout(constant_id = 3) const int A_VEC = 4;
layout(constant_id = 4) const int B_VEC = 4;
layout(constant_id = 5) const bool HAS_C = false;
layout(constant_id = 6) const int OUT_VEC = 4;  // of the residual too
layout(constant_id = 7) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 8) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "matmul/activation.glsl"
#include "matmul/tile_order.glsl"

const uint TILE = 128, STEP = 8, PITCH = TILE + 4, BAND = 8;
const uint HALF = STEP * PITCH / 4;  // in vec4
shared vec4 tile_a[2 * HALF];
shared vec4 tile_b[2 * HALF];

uint64_t place(uint64_t base, int64_t row, int row_stride, int64_t k, int k_stride) {
  return base + uint64_t(row * row_stride + k * k_stride) * (DTYPE == AULE_DT_F32 ? 4 : 2);
}

// Four elements of this invocation: k to k + 3 of `row`, or rows row to row + 3 of k. Zeros past the end.
vec4 fetch(uint64_t base, uint row, uint rows, int row_stride, uint k, int k_stride, bool k_major, int vec) {
  vec4 v = vec4(0.0);
  if (vec == 4) {
    if (row < rows && k < p.k) v = F32x4Ref(place(base, row, row_stride, k, k_stride)).v;
  } else {
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      const uint r = k_major ? row : row + i, kk = k_major ? k + i : k;
      if (r < rows && kk < p.k) v[i] = load_float(place(base, r, row_stride, kk, k_stride), 0, DTYPE);
    }
  }
  return v;
}

#define PUT(tile, half_, v, k_major, row, k)                                                          \
  if (k_major) {                                                                                 \
    [[unroll]] for (uint i = 0; i < 4; ++i) tile[half_ * HALF + ((k + i) * PITCH + row) / 4][row & 3] = v[i]; \
  } else {                                                                                            \
    tile[half_ * HALF + (k * PITCH + row) / 4] = v;                                                   \
  }

void main() {
  const uint tiles_m = (p.m + TILE - 1) / TILE, tiles_n = (p.n + TILE - 1) / TILE, per_product = tiles_m * tiles_n;
  const uint group = linear_group(), batch = group / per_product;
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint tile = group % per_product;
  PLACE_TILE(tile, BAND, TILE, TILE)
  const uint t = gl_LocalInvocationID.x, tx = t % 16, ty = t / 16;
  const uint64_t size = DTYPE == AULE_DT_F32 ? 4 : 2;
  const uint64_t a = p.a + uint64_t(int64_t(batch) * p.a_batch) * size,
      b = p.b + uint64_t(int64_t(batch) * p.b_batch) * size;
  const uint a_row = A_K_MAJOR ? t / 2 : t % 32 * 4, a_k = A_K_MAJOR ? t % 2 * 4 : t / 32;
  const uint b_row = B_K_MAJOR ? t / 2 : t % 32 * 4, b_k = B_K_MAJOR ? t % 2 * 4 : t / 32;

  float acc[8][8];
  [[unroll]] for (int i = 0; i < 8; ++i)
    [[unroll]] for (int j = 0; j < 8; ++j) acc[i][j] = 0.0;

  vec4 next_a = fetch(a, m0 + a_row, p.m, p.a_m, a_k, p.a_k, A_K_MAJOR, A_VEC);
  vec4 next_b = fetch(b, n0 + b_row, p.n, p.b_n, b_k, p.b_k, B_K_MAJOR, B_VEC);
  PUT(tile_a, 0, next_a, A_K_MAJOR, a_row, a_k)
  PUT(tile_b, 0, next_b, B_K_MAJOR, b_row, b_k)
  barrier();  // the first step is written
  uint now = 0;
  [[dont_unroll]] for (uint k0 = 0; k0 < p.k; k0 += STEP) {
    next_a = fetch(a, m0 + a_row, p.m, p.a_m, k0 + STEP + a_k, p.a_k, A_K_MAJOR, A_VEC);
    next_b = fetch(b, n0 + b_row, p.n, p.b_n, k0 + STEP + b_k, p.b_k, B_K_MAJOR, B_VEC);
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
      const uint at = now * HALF + k * (PITCH / 4);
      const vec4 x0 = tile_a[at + ty], x1 = tile_a[at + 16 + ty], y0 = tile_b[at + tx], y1 = tile_b[at + 16 + tx];
      [[unroll]] for (int i = 0; i < 8; ++i) {
        const float x = i < 4 ? x0[i & 3] : x1[i & 3];
        [[unroll]] for (int j = 0; j < 8; ++j) acc[i][j] = fma(x, j < 4 ? y0[j & 3] : y1[j & 3], acc[i][j]);
      }
    }
    now ^= 1;
    PUT(tile_a, now, next_a, A_K_MAJOR, a_row, a_k)
    PUT(tile_b, now, next_b, B_K_MAJOR, b_row, b_k)
    barrier();  // the next step is written, this one read
  }

  [[unroll]] for (int i = 0; i < 8; ++i) {
    const uint row = m0 + ty * 4 + (i < 4 ? i : 60 + i);
    if (row < p.m) {
      [[unroll]] for (int h = 0; h < 2; ++h) {
        const uint col = n0 + tx * 4 + h * 64;
        vec4 v = p.alpha * vec4(acc[i][4 * h], acc[i][4 * h + 1], acc[i][4 * h + 2], acc[i][4 * h + 3]);
        if (HAS_C) {
          [[unroll]] for (uint j = 0; j < 4; ++j)
            if (col + j < p.n)
              v[j] += p.beta * load_float(p.c, uint64_t(int64_t(batch) * p.c_batch + int64_t(row) * p.c_m +
                  int64_t(col + j) * p.c_n), DTYPE);
        }
        if (ACTIVATION != 0) {
          [[unroll]] for (uint j = 0; j < 4; ++j) v[j] = activate(v[j]);
        }
        const uint64_t start = uint64_t(int64_t(batch) * p.out_batch) * size;
        const uint64_t at = p.out_ + start, residual = p.residual + start;
        if (OUT_VEC == 4) {
          if (col < p.n) {
            if (RESIDUAL) v += F32x4Ref(place(residual, row, p.out_m, col, p.out_n)).v;
            F32x4Ref(place(at, row, p.out_m, col, p.out_n)).v = v;
          }
        } else {
          [[unroll]] for (uint j = 0; j < 4; ++j) {
            if (col + j < p.n) {
              if (RESIDUAL) v[j] += load_float(place(residual, row, p.out_m, col + j, p.out_n), 0, DTYPE);
              store_float(place(at, row, p.out_m, col + j, p.out_n), 0, DTYPE, v[j]);
            }
          }
        }
      }
    }
  }
}
