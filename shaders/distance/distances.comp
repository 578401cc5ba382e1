#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[b, i, j] = the p-norm of x[b, i, :] - y[b, j, :].  PAIRS: out[k] of the pairs i < j of one set, x = y, in order.
// One invocation per distance. TILED: a workgroup of 16 x 16 distances reads rows through shared memory, for devices
// where a barrier is cheap; else an invocation reads its own two rows. Deterministic.
layout(local_size_x_id = 4) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int NORM = 2;
layout(constant_id = 2) const bool PAIRS = false;
layout(constant_id = 3) const bool TILED = false;
layout(constant_id = 4) const int LOCAL = 64;  // TILED: 256
struct Params {
  uint64_t x, y, out_;
  uint64_t n;                     // distances; TILED: workgroups
  uint64_t power_bits;            // of a double
  uint rows, columns, features;   // points of x, of y
  float power;
};
#include "common/params.glsl"
#include "distance/norms.glsl"

#ifdef C_double
#define POWER packDouble2x32(unpackUint2x32(p.power_bits))
#else
#define POWER p.power
#endif

const uint TILE = 16u;
shared REAL from_x[TILED ? TILE * (TILE + 1u) : 1u], from_y[TILED ? TILE * (TILE + 1u) : 1u];

// Workgroup: a tile of a batch.
void tile() {
  const uint group = linear_group(), lane = gl_LocalInvocationID.x, u = lane % TILE, v = lane / TILE;
  if (uint64_t(group) >= p.n) return;
  const uint across = (p.columns + TILE - 1u) / TILE, down = (p.rows + TILE - 1u) / TILE;
  const uint batch = group / (across * down), place = group - batch * across * down;
  const uint i = place / across * TILE + v, j = place % across * TILE + u;
  const uint x_row = min(i, p.rows - 1u), y_row = min(place % across * TILE + v, p.columns - 1u);
  const uint64_t x_start = (uint64_t(batch) * uint64_t(p.rows) + uint64_t(x_row)) * uint64_t(p.features);
  const uint64_t y_start = (uint64_t(batch) * uint64_t(p.columns) + uint64_t(y_row)) * uint64_t(p.features);
  REAL sum = REAL(0);
  for (uint first = 0u; first < p.features; first += TILE) {
    const uint feature = first + u;
    const bool some = feature < p.features;
    barrier();  // the tile before has been read
    from_x[v * (TILE + 1u) + u] = some ? LOAD(p.x, x_start + uint64_t(feature), DTYPE) : REAL(0);
    from_y[v * (TILE + 1u) + u] = some ? LOAD(p.y, y_start + uint64_t(feature), DTYPE) : REAL(0);
    barrier();  // the tile is written
    for (uint k = 0u; k < TILE; ++k)
      sum = norm_step(sum, abs(from_x[v * (TILE + 1u) + k] - from_y[u * (TILE + 1u) + k]), POWER);
  }
  if (i < p.rows && j < p.columns)
    STORE(p.out_, (uint64_t(batch) * uint64_t(p.rows) + uint64_t(i)) * uint64_t(p.columns) + uint64_t(j), DTYPE,
        norm_end(sum, POWER));
}

// Pairs of n points as a rectangle: row r of the triangle and the row that fills the rectangle's line.
void pair_of(uint64_t id, out uint64_t i, out uint64_t j) {
  const uint64_t n = uint64_t(p.rows), width = n - uint64_t(1) + (n & uint64_t(1)), line = id / width;
  const uint64_t column = id - line * width, length = n - uint64_t(1) - line;
  const uint64_t other = n - uint64_t(1) - line - (n & uint64_t(1));
  i = column < length ? line : other;
  j = column < length ? line + uint64_t(1) + column : other + uint64_t(1) + column - length;
}

void main() {
  if (TILED) {
    tile();
    return;
  }
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  uint64_t i = id / uint64_t(p.columns), j = id - i * uint64_t(p.columns), to = id;
  if (PAIRS) {
    pair_of(id, i, j);
    to = i * (uint64_t(2) * uint64_t(p.rows) - i - uint64_t(1)) / uint64_t(2) + j - i - uint64_t(1);
  } else {
    j += i / uint64_t(p.rows) * uint64_t(p.columns);
  }
  REAL sum = REAL(0);
  for (uint k = 0u; k < p.features; ++k)
    sum = norm_step(sum, abs(LOAD(p.x, i * uint64_t(p.features) + uint64_t(k), DTYPE) -
        LOAD(p.y, j * uint64_t(p.features) + uint64_t(k), DTYPE)), POWER);
  STORE(p.out_, to, DTYPE, norm_end(sum, POWER));
}
