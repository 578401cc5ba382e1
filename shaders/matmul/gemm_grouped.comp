// Grouped products of a mixture of experts, float32, float16, bfloat16 with float32 accumulation, any strides. Groups
// end at the int32 `offs`, which stay on the device.
//   rows      out[begin:end] = a[begin:end] @ b[g]; rows past the last group are 0
//   K_GROUPS  out[g] = a[:, begin:end] @ b[begin:end]
//
// A workgroup of 256 makes a 64 x 64 tile, an invocation 4 x 4 of it. A group of rows takes the row tiles from
// begin / 64 + g on: as many as it needs, whatever lies before it, so that a bisection of `offs` finds a tile's group.
// STAGED: 16 steps of k of both operands are in shared memory. Otherwise, for software devices, there is no barrier.
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool K_GROUPS = false;
layout(constant_id = 2) const bool STAGED = true;
layout(constant_id = 3) const bool A_K_MAJOR = true;  // a_k is the small stride
layout(constant_id = 4) const bool B_K_MAJOR = false;  // b_k is the small stride
layout(local_size_x = 256) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t a, b, out_, offs;
  int64_t group;  // stride of b, or of out, from group to group
  int a_m, a_k, b_k, b_n, out_m, out_n;
  uint m, n, k, groups;
};
#include "common/params.glsl"

const uint TILE = 64, STEP = 16, PITCH = TILE + 4;
shared float tile_a[STEP * PITCH];
shared float tile_b[STEP * PITCH];

// The beginning of group g, within the tensor even if the caller's offsets are not. After the last: rows of no group.
uint begin_of(uint g) {
  if (g == 0) return 0;
  return uint(clamp(I32Ref(p.offs + uint64_t(g - 1) * 4).v, 0, int(K_GROUPS ? p.k : p.m)));
}
uint end_of(uint g) { return g == p.groups ? p.m : begin_of(g + 1); }

float load_a(uint row, uint k) {
  return load_float(p.a, uint64_t(int64_t(row) * p.a_m + int64_t(k) * p.a_k), DTYPE);
}
float load_b(int64_t base, uint k, uint col) {
  return load_float(p.b, uint64_t(base + int64_t(k) * p.b_k + int64_t(col) * p.b_n), DTYPE);
}

float acc[4][4];
void multiply_add(float x[4], float y[4]) {
  [[unroll]] for (int i = 0; i < 4; ++i)
    [[unroll]] for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
}

// The group that row tile t belongs to: the last that starts at t or before.
uint group_of(uint t) {
  uint low = 0, high = p.groups;
  while (low < high) {
    const uint middle = (low + high + 1) / 2;
    if (begin_of(middle) / TILE + middle <= t) low = middle;
    else high = middle - 1;
  }
  return low;
}

void main() {
  const uint tiles_n = (p.n + TILE - 1) / TILE;
  const uint tiles_m = K_GROUPS ? (p.m + TILE - 1) / TILE : p.m / TILE + p.groups + 1;
  const uint tile = linear_group(), n0 = tile % tiles_n * TILE, row_tile = tile / tiles_n;
  if (row_tile >= (K_GROUPS ? tiles_m * p.groups : tiles_m)) return;  // the whole workgroup leaves
  const uint g = K_GROUPS ? row_tile / tiles_m : group_of(row_tile);
  const uint begin = begin_of(g), end = end_of(g);
  const uint m0 = K_GROUPS ? row_tile % tiles_m * TILE : begin + (row_tile - begin / TILE - g) * TILE;
  const uint m1 = K_GROUPS ? p.m : end;
  if (m0 >= m1) return;
  const uint k0 = K_GROUPS ? begin : 0, k1 = K_GROUPS ? end : g < p.groups ? p.k : 0;
  const int64_t b_base = K_GROUPS ? int64_t(0) : int64_t(g) * p.group;
  const uint t = gl_LocalInvocationID.x, row = m0 + t / 16 * 4, col = n0 + t % 16 * 4;

  [[unroll]] for (int i = 0; i < 4; ++i)
    [[unroll]] for (int j = 0; j < 4; ++j) acc[i][j] = 0.0;
  float x[4], y[4];
  if (STAGED) {
    for (uint k = k0; k < k1; k += STEP) {
      [[unroll]] for (uint s = 0; s < 4; ++s) {
        const uint e = s * 256 + t;
        const uint ak = A_K_MAJOR ? e % STEP : e / TILE, am = A_K_MAJOR ? e / STEP : e % TILE;
        const uint bk = B_K_MAJOR ? e % STEP : e / TILE, bn = B_K_MAJOR ? e / STEP : e % TILE;
        float u = 0.0, v = 0.0;
        if (m0 + am < m1 && k + ak < k1) u = load_a(m0 + am, k + ak);
        if (n0 + bn < p.n && k + bk < k1) v = load_b(b_base, k + bk, n0 + bn);
        tile_a[ak * PITCH + am] = u;
        tile_b[bk * PITCH + bn] = v;
      }
      barrier();  // tiles are written
      [[unroll]] for (uint s = 0; s < STEP; ++s) {
        [[unroll]] for (int i = 0; i < 4; ++i) x[i] = tile_a[s * PITCH + t / 16 * 4 + i];
        [[unroll]] for (int j = 0; j < 4; ++j) y[j] = tile_b[s * PITCH + t % 16 * 4 + j];
        multiply_add(x, y);
      }
      barrier();  // tiles are read before the next step overwrites them
    }
  } else if (row < m1 && col < p.n) {
    for (uint k = k0; k < k1; ++k) {  // rows and columns past the end read the last one's
      [[unroll]] for (int i = 0; i < 4; ++i) x[i] = load_a(min(row + i, m1 - 1), k);
      [[unroll]] for (int j = 0; j < 4; ++j) y[j] = load_b(b_base, k, min(col + j, p.n - 1));
      multiply_add(x, y);
    }
  }
  const int64_t out_base = K_GROUPS ? int64_t(g) * p.group : int64_t(0);
  [[unroll]] for (uint i = 0; i < 4; ++i)
    [[unroll]] for (uint j = 0; j < 4; ++j)
      if (row + i < m1 && col + j < p.n)
        store_float(p.out_, uint64_t(out_base + int64_t(row + i) * p.out_m + int64_t(col + j) * p.out_n), DTYPE,
                    acc[i][j]);
}
