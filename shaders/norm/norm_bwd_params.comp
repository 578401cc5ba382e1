#pragma aule axis C float double
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
// Gradients of a norm's weight and bias: sums over r for each output o, in chunks that a later reduction adds up:
//   dw[chunk, o] = sum of g (x - mean) rstd,   db[chunk, o] = sum of g
// Element (o, r): at r1 * hop1 + r0 + o * hop, r = r1 * inner + r0; its statistics: r1 * stat_hop + o / stat_div.
//   layer norm  o column, r1 row: hop 1, hop1 n, inner 1, stat_hop 1, stat_div n
//   group norm  o channel, r1 sample, r0 hw: hop hw, hop1 channels*hw, inner hw, stat_hop groups, stat_div
//               channels/groups
//   batch norm  likewise: stat_hop 0, stat_div 1
// GROUP 0: one invocation per (chunk, output), neighbours along o. GROUP 1: one workgroup, neighbours along r. With VEC
// an invocation has four outputs (hop 1, inner 1), or takes four neighbours r at once (inner a multiple of 4).
layout(constant_id = 0) const int G_DTYPE = 0;
layout(constant_id = 1) const int X_DTYPE = 0;
layout(constant_id = 2) const bool IS_RMS = false;    // no mean
layout(constant_id = 3) const bool HAS_RSTD = true;   // else dw lacks that factor
layout(constant_id = 4) const bool WANTS_DW = true;
layout(constant_id = 5) const bool WANTS_DB = true;
layout(constant_id = 6) const int VEC = 0;
layout(constant_id = 7) const bool OF_OUTPUT = false;  // stat_hop 0: an output has its statistics
layout(constant_id = 8) const int LOCAL = 8;
layout(local_size_x_id = 8) in;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t grad, x, mean, rstd, dw, db;
  uint64_t n_red, chunk, hop1;
  uint n_out, inner, hop, stat_hop, stat_div;
};
#include "common/params.glsl"

const bool HAS_MEAN = WANTS_DW && !IS_RMS, SCALES = WANTS_DW && HAS_RSTD;
const uint AT_ONCE = 4u;  // loads of each tensor in flight
V4 mean = V4(0), rstd = V4(1), w = V4(0), b = V4(0);

V4 load_some(uint64_t base, uint64_t at, int dt) {
#ifndef C_double
  if (VEC != 0) return load4(base, at, dt);
#endif
  return V4(load1(base, at, dt), C(0), C(0), C(0));
}

// Of output o and row r1; four outputs share it, if it is not their own.
void load_statistics(uint64_t r1, uint o) {
  const uint64_t s = r1 * p.stat_hop + o / p.stat_div;
  if (HAS_MEAN) mean = V4(load1(p.mean, s, STAT_DTYPE));
  if (SCALES) rstd = V4(load1(p.rstd, s, STAT_DTYPE));
}

// Without VEC to one of four sums: shorter chains of additions.
void add(uint slot, V4 g, V4 x) {
  const V4 h = WANTS_DW ? g * ((x - mean) * rstd) : V4(0);
  if (VEC != 0) {
    b += g;
    w += h;
  } else {
    b[slot] += g.x;
    w[slot] += h.x;
  }
}

#if GROUP
shared C tree_w[LOCAL], tree_b[LOCAL];

uint64_t row_of(uint64_t r) {
  return (p.n_red >> 32) == 0 ? uint64_t(uint(r) / p.inner) : r / p.inner;
}

void main() {
  const uint64_t work = uint64_t(linear_group()), c = work / p.n_out;
  const uint o = uint(work - c * p.n_out), lane = gl_LocalInvocationID.x, each = VEC != 0 ? 4u : 1u;
  const uint64_t first = c * p.chunk + lane * each, last = lesser((c + 1) * p.chunk, p.n_red);
  if (c * p.chunk >= p.n_red) return;  // the whole workgroup leaves
  if (OF_OUTPUT) load_statistics(uint64_t(0), o);
  for (uint64_t r = first; r < last; r += LOCAL * each * AT_ONCE) {
    V4 g[AT_ONCE], x[AT_ONCE];
    uint64_t rows[AT_ONCE];
    [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
      const uint64_t own = r + i * LOCAL * each, q = own < last ? own : r, at_row = row_of(q);
      const uint64_t at = at_row * p.hop1 + (q - at_row * p.inner) + uint64_t(o) * p.hop;
      rows[i] = at_row;
      g[i] = load_some(p.grad, at, G_DTYPE);
      if (WANTS_DW) x[i] = load_some(p.x, at, X_DTYPE);
    }
    [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
      if (r + i * LOCAL * each < last) {
        if (!OF_OUTPUT) load_statistics(rows[i], o);
        add(i, g[i], x[i]);
      }
    }
  }
  tree_w[lane] = sum4(w);
  tree_b[lane] = sum4(b);
  barrier();  // all of the tree written
  for (uint h = LOCAL / 2; h > 0u; h /= 2) {
    if (lane < h) {
      tree_w[lane] += tree_w[lane + h];
      tree_b[lane] += tree_b[lane + h];
    }
    barrier();  // this level done
  }
  if (lane != 0u) return;
  if (WANTS_DW) store1(p.dw, c * p.n_out + o, STAT_DTYPE, tree_w[0]);
  if (WANTS_DB) store1(p.db, c * p.n_out + o, STAT_DTYPE, tree_b[0]);
}
#else
void store_sums(uint64_t at) {
#ifndef C_double
  if (VEC != 0) {
    if (WANTS_DW) store4(p.dw, at, STAT_DTYPE, w);
    if (WANTS_DB) store4(p.db, at, STAT_DTYPE, b);
    return;
  }
#endif
  if (WANTS_DW) store1(p.dw, at, STAT_DTYPE, sum4(w));
  if (WANTS_DB) store1(p.db, at, STAT_DTYPE, sum4(b));
}

void main() {
  const uint64_t id = linear_invocation();
  const uint width = VEC != 0 ? p.n_out / 4u : p.n_out;
  const uint64_t c = id / width, first = c * p.chunk, last = lesser(first + p.chunk, p.n_red);
  const uint o = uint(id - c * width) * (VEC != 0 ? 4u : 1u);
  if (first >= p.n_red) return;
  if (OF_OUTPUT) {
    [[unroll]] for (uint i = 0u; i < (VEC != 0 ? 4u : 1u); ++i) {
      const uint64_t s = uint64_t((o + i) / p.stat_div);
      if (HAS_MEAN) mean[i] = load1(p.mean, s, STAT_DTYPE);
      if (SCALES) rstd[i] = load1(p.rstd, s, STAT_DTYPE);
    }
  }
  uint64_t r1 = first / p.inner, r = first;
  uint r0 = uint(first - r1 * p.inner);
  const uint64_t from = uint64_t(o) * p.hop;
  if (p.inner == 1u) {  // rows in a row
    for (; r + AT_ONCE <= last; r += AT_ONCE) {
      V4 g[AT_ONCE], x[AT_ONCE];
      [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
        g[i] = load_some(p.grad, (r + i) * p.hop1 + from, G_DTYPE);
        if (WANTS_DW) x[i] = load_some(p.x, (r + i) * p.hop1 + from, X_DTYPE);
      }
      [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
        if (!OF_OUTPUT) load_statistics(r + i, o);
        add(i, g[i], x[i]);
      }
    }
    r1 = r;
  }
  for (uint slot = 0u; r < last; ++r, slot = (slot + 1u) & 3u) {
    const uint64_t at = r1 * p.hop1 + r0 + from;
    if (!OF_OUTPUT) load_statistics(r1, o);
    add(slot, load_some(p.grad, at, G_DTYPE), WANTS_DW ? load_some(p.x, at, X_DTYPE) : V4(0));
    if (++r0 == p.inner) {
      r0 = 0u;
      ++r1;
    }
  }
  store_sums(c * p.n_out + o);
}
#endif
