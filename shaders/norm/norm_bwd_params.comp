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
// GROUP 0: one invocation per (chunk, output), neighbours along o. GROUP 1: one workgroup, neighbours along r.
layout(constant_id = 0) const int G_DTYPE = 0;
layout(constant_id = 1) const int X_DTYPE = 0;
layout(constant_id = 2) const bool IS_RMS = false;    // no mean
layout(constant_id = 3) const bool HAS_RSTD = true;   // else dw lacks that factor
layout(constant_id = 4) const bool WANTS_DW = true;
layout(constant_id = 5) const bool WANTS_DB = true;
layout(constant_id = 6) const int VEC = 0;    // GROUP 0 with hop 1: four outputs per invocation
layout(constant_id = 7) const int LOCAL = 8;
layout(local_size_x_id = 7) in;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t grad, x, mean, rstd, dw, db;
  uint64_t n_red, chunk, hop1;
  uint n_out, inner, hop, stat_hop, stat_div;
};
#include "common/params.glsl"

#if GROUP
shared C tree_w[LOCAL], tree_b[LOCAL];
#endif

void main() {
#if GROUP
  uint64_t work = uint64_t(linear_group());
  uint64_t c = work / p.n_out;
  uint o = uint(work - c * p.n_out), lane = gl_LocalInvocationID.x;
  uint64_t first = c * p.chunk + lane, last = lesser((c + 1) * p.chunk, p.n_red);
  if (c * p.chunk >= p.n_red) return;  // the whole workgroup leaves
  C w = C(0), b = C(0);
  for (uint64_t r = first; r < last; r += LOCAL) {
    uint64_t r1 = r / p.inner, at = r1 * p.hop1 + (r - r1 * p.inner) + uint64_t(o) * p.hop;
    uint64_t s = r1 * p.stat_hop + o / p.stat_div;
    C g = load1(p.grad, at, G_DTYPE);
    b += g;
    if (WANTS_DW) w += g * (load1(p.x, at, X_DTYPE) - (IS_RMS ? C(0) : load1(p.mean, s, STAT_DTYPE))) *
        (HAS_RSTD ? load1(p.rstd, s, STAT_DTYPE) : C(1));
  }
  tree_w[lane] = w;
  tree_b[lane] = b;
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
#else
  uint64_t id = linear_invocation();
  uint width = VEC != 0 ? p.n_out / 4u : p.n_out;
  uint64_t c = id / width;
  uint o = uint(id - c * width) * (VEC != 0 ? 4u : 1u);
  uint64_t first = c * p.chunk, last = lesser(first + p.chunk, p.n_red);
  if (first >= p.n_red) return;
  V4 w = V4(0), b = V4(0);
  uint64_t r1 = first / p.inner;
  uint r0 = uint(first - r1 * p.inner), slot = 0u;
  for (uint64_t r = first; r < last; ++r) {
    uint64_t at = r1 * p.hop1 + r0 + uint64_t(o) * p.hop, s = r1 * p.stat_hop + o / p.stat_div;
    C mean = IS_RMS || !WANTS_DW ? C(0) : load1(p.mean, s, STAT_DTYPE);
    C rstd = HAS_RSTD && WANTS_DW ? load1(p.rstd, s, STAT_DTYPE) : C(1);
#ifndef C_double
    if (VEC != 0) {
      vec4 g = load4(p.grad, at, G_DTYPE);
      b += g;
      if (WANTS_DW) w += g * ((load4(p.x, at, X_DTYPE) - mean) * rstd);
    } else
#endif
    {
      C g = load1(p.grad, at, G_DTYPE);
      b[slot] += g;  // four partial sums: shorter chains of additions
      if (WANTS_DW) w[slot] += g * ((load1(p.x, at, X_DTYPE) - mean) * rstd);
      slot = (slot + 1u) & 3u;
    }
    if (++r0 == p.inner) {
      r0 = 0u;
      ++r1;
    }
  }
#ifndef C_double
  if (VEC != 0) {
    if (WANTS_DW) store4(p.dw, c * p.n_out + o, STAT_DTYPE, w);
    if (WANTS_DB) store4(p.db, c * p.n_out + o, STAT_DTYPE, b);
    return;
  }
#endif
  if (WANTS_DW) store1(p.dw, c * p.n_out + o, STAT_DTYPE, sum4(w));
  if (WANTS_DB) store1(p.db, c * p.n_out + o, STAT_DTYPE, sum4(b));
#endif
}
