// c -= x x^T, float32, of the lower triangle of c [m, m], in place: what a panel x [m, k] takes from the columns that
// follow it. Tiles of the diagonal are computed whole. Matrices whose `info` is not 0 stay as they are.
//
// A workgroup of 256 makes 16 SIDE x 16 SIDE of c, an invocation SIDE x SIDE, as in gemm_simt_large.comp: v is the
// index of the large stride, u that of the small one. ALONG_K: neighbours in memory are of one row of x, else of one
// column. VEC 4: loads and stores of 16 bytes along the small stride.
// What was tried, and what it gave: docs/ladders/cholesky.md
layout(constant_id = 0) const int SIDE = 8;  // 4 or 8
layout(constant_id = 1) const bool ALONG_K = false;
layout(constant_id = 2) const int VEC = 4;
layout(local_size_x = 256) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t x, c, info;
  int64_t batch_stride, row, col;
  uint m, k, batches;
};
#include "common/params.glsl"

const uint TILE = 16 * SIDE, STEP = 1024 / TILE, PITCH = TILE + 4;
const uint HALF = STEP * PITCH / 4;  // in vec4
const int QUADS = SIDE / 4;
shared vec4 tile_v[2 * HALF];
shared vec4 tile_u[2 * HALF];

uint64_t place(uint64_t base, uint row, uint col) {
  return base + uint64_t((int64_t(row) * p.row + int64_t(col) * p.col) * 4);
}

// Elements k to k + 3 of a row, or rows row to row + 3 of column k. Zeros past the end.
vec4 fetch(uint64_t base, uint row, uint k) {
  vec4 v = vec4(0.0);
  if (VEC == 4) {
    if (row < p.m && k < p.k) v = F32x4Ref(place(base, row, k)).v;
  } else {
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      const uint r = ALONG_K ? row : row + i, kk = ALONG_K ? k + i : k;
      if (r < p.m && kk < p.k) v[i] = F32Ref(place(base, r, kk)).v;
    }
  }
  return v;
}

#define PUT(tile, half_, v, row, k)                                                                           \
  if (ALONG_K) {                                                                                              \
    [[unroll]] for (uint i = 0; i < 4; ++i) tile[half_ * HALF + ((k + i) * PITCH + row) / 4][row & 3] = v[i]; \
  } else {                                                                                                    \
    tile[half_ * HALF + (k * PITCH + row) / 4] = v;                                                           \
  }

// Row and column of tile t of the lower triangle, counted row by row.
uvec2 tile_of(uint t) {
  uint row = uint((sqrt(8.0 * float(t) + 1.0) - 1.0) / 2.0);
  if (row * (row + 1) / 2 > t) --row;  // the root is rounded
  if ((row + 1) * (row + 2) / 2 <= t) ++row;
  return uvec2(row, t - row * (row + 1) / 2);
}

// `old` where it was loaded already.
void store(uint64_t at, vec4 old, vec4 taken, uint count) {
  if (VEC == 4) {
    F32x4Ref(at).v = old - taken;
  } else {
    [[unroll]] for (uint j = 0; j < 4; ++j)
      if (j < count) F32Ref(at + uint64_t(int64_t(j) * (ALONG_K ? p.col : p.row) * 4)).v -= taken[j];
  }
}

void main() {
  const uint sides = (p.m + TILE - 1) / TILE, tiles = sides * (sides + 1) / 2;
  const uint batch = linear_group() / tiles;
  if (batch >= p.batches) return;                    // the whole workgroup leaves
  if (I32Ref(p.info + batch * 4).v != 0) return;  // and here
  const uvec2 tile = tile_of(linear_group() % tiles) * TILE;
  const uint v0 = ALONG_K ? tile.x : tile.y, u0 = ALONG_K ? tile.y : tile.x;
  const uint t = gl_LocalInvocationID.x, tx = t % 16, ty = t / 16;
  const uint64_t start = uint64_t(int64_t(batch) * p.batch_stride * 4);
  const uint64_t x = p.x + start, c = p.c + start;
  const uint row = ALONG_K ? t / (STEP / 4) : t % (TILE / 4) * 4, k = ALONG_K ? t % (STEP / 4) * 4 : t / (TILE / 4);

  float acc[SIDE][SIDE];
  [[unroll]] for (int i = 0; i < SIDE; ++i)
    [[unroll]] for (int j = 0; j < SIDE; ++j) acc[i][j] = 0.0;

  vec4 next_v = fetch(x, v0 + row, k), next_u = fetch(x, u0 + row, k);
  PUT(tile_v, 0, next_v, row, k)
  PUT(tile_u, 0, next_u, row, k)
  barrier();  // the first step is written
  uint now = 0;
  [[dont_unroll]] for (uint k0 = 0; k0 < p.k; k0 += STEP) {
    next_v = fetch(x, v0 + row, k0 + STEP + k);
    next_u = fetch(x, u0 + row, k0 + STEP + k);
    [[unroll]] for (uint s = 0; s < STEP; ++s) {
      const uint at = now * HALF + s * (PITCH / 4);
      vec4 a[QUADS], b[QUADS];
      [[unroll]] for (int q = 0; q < QUADS; ++q) {
        a[q] = tile_v[at + 16 * q + ty];
        b[q] = tile_u[at + 16 * q + tx];
      }
      [[unroll]] for (int i = 0; i < SIDE; ++i)
        [[unroll]] for (int j = 0; j < SIDE; ++j) acc[i][j] = fma(a[i / 4][i & 3], b[j / 4][j & 3], acc[i][j]);
    }
    now ^= 1;
    PUT(tile_v, now, next_v, row, k)
    PUT(tile_u, now, next_u, row, k)
    barrier();  // the next step is written, this one read
  }

  [[unroll]] for (int h = 0; h < QUADS; ++h) {  // a branch around a load would keep the next one waiting
    vec4 old[4 * QUADS];
    [[unroll]] for (int i = 0; i < 4 * QUADS && VEC == 4; ++i) {
      const uint v = min(v0 + ty * 4 + i / QUADS + h * 64, p.m - 1), u = min(u0 + tx * 4 + i % QUADS * 64, p.m - 4);
      old[i] = F32x4Ref(ALONG_K ? place(c, v, u) : place(c, u, v)).v;
    }
    [[unroll]] for (int i = 0; i < 4 * QUADS; ++i) {
      const uint v = v0 + ty * 4 + i / QUADS + h * 64, u = u0 + tx * 4 + i % QUADS * 64;
      const int row_of = 4 * h + i / QUADS, from = i % QUADS * 4;
      if (v < p.m && u < p.m)
        store(ALONG_K ? place(c, v, u) : place(c, u, v), old[i],
              vec4(acc[row_of][from], acc[row_of][from + 1], acc[row_of][from + 2], acc[row_of][from + 3]), p.m - u);
    }
  }
}
