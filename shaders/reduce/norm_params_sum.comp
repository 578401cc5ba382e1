#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The sums that norm_bwd_persistent.comp's workgroups left: dw[o] = sum over groups of part_w[group, o], db likewise.
// A workgroup has 32 outputs and 8 invocations for each. The upper half of the grid computes db. The sums may be stored
// once more, in another dtype: dw2[o] = dw[o] scale[o], db2[o] = db[o].
layout(local_size_x = 256) in;
layout(constant_id = 0) const int W_DTYPE = 0;
layout(constant_id = 1) const int B_DTYPE = 0;
layout(constant_id = 2) const int W2_DTYPE = 0;
layout(constant_id = 3) const int B2_DTYPE = 0;
layout(constant_id = 4) const bool WANTS_W = true;
layout(constant_id = 5) const bool WANTS_B = true;
layout(constant_id = 6) const bool WANTS_W2 = false;
layout(constant_id = 7) const bool WANTS_B2 = false;
layout(constant_id = 8) const bool HAS_SCALE = false;
#include "common/dtype.glsl"
#include "common/real.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t part_w, part_b, dw, db, dw2, db2, scale;  // parts and scale are of the arithmetic type
  uint n, groups, blocks;                            // blocks: of 32 outputs, for one of the two
};
#include "common/params.glsl"

shared REAL sums[256];

void main() {
  const bool bias = linear_group() >= p.blocks;
  const uint block = linear_group() - (bias ? p.blocks : 0u);
  const uint lane = gl_LocalInvocationID.x, o = block * 32u + (lane & 31u), slice = lane / 32u;
  const uint64_t part = bias ? p.part_b : p.part_w;
  REAL s[4] = REAL[4](REAL(0), REAL(0), REAL(0), REAL(0));
  if (o < p.n) {
    uint g = slice;
    for (; g + 24u < p.groups; g += 32u)  // four loads at a time
      [[unroll]] for (uint i = 0; i < 4u; ++i) s[i] += LOAD(part, uint64_t(g + 8u * i) * p.n + o, REAL_DTYPE);
    for (; g < p.groups; g += 8u) s[0] += LOAD(part, uint64_t(g) * p.n + o, REAL_DTYPE);
  }
  sums[lane] = (s[0] + s[1]) + (s[2] + s[3]);
  barrier();  // all slices written
  if (slice != 0u || o >= p.n) return;
  REAL t = REAL(0);
  [[unroll]] for (uint i = 0; i < 8u; ++i) t += sums[i * 32u + lane];
  if (bias) {
    if (WANTS_B) STORE(p.db, uint64_t(o), B_DTYPE, t);
    if (WANTS_B2) STORE(p.db2, uint64_t(o), B2_DTYPE, t);
  } else {
    if (WANTS_W) STORE(p.dw, uint64_t(o), W_DTYPE, t);
    if (HAS_SCALE) t *= LOAD(p.scale, uint64_t(o), REAL_DTYPE);
    if (WANTS_W2) STORE(p.dw2, uint64_t(o), W2_DTYPE, t);
  }
}
