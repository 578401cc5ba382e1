// Shared by norm_fwd and norm_bwd. Expects PER_CHANNEL, params n, hw, groups, channels, and norm/rowwise.glsl.
#include "norm/moments.glsl"

// Weight or bias of elements k .. k+3 of a row.
V4 affine(uint64_t base, int dt, uint64_t row, uint k) {
  if (!PER_CHANNEL) return fetch(Row(base, uint64_t(0), uint64_t(1), p.n), k, dt, C(0));
  uint first = uint(row % p.groups) * p.channels;
  V4 v = V4(0);
  [[unroll]] for (uint j = 0; j < 4u; ++j)
    if (k + j < p.n) v[j] = load1(base, uint64_t(first + (k + j) / p.hw), dt);
  return v;
}

C load_stat(uint64_t base, uint64_t i) { return load1(base, i, STAT_DTYPE); }
void store_stat(uint64_t base, uint64_t i, C x) { store1(base, i, STAT_DTYPE, x); }
