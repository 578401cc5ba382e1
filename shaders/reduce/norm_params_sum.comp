// The sums that norm_bwd_persistent.comp's workgroups left: dw[o] = sum over groups of part_w[group, o], db likewise.
// A workgroup has 32 outputs and 8 invocations for each. The upper half of the grid computes db.
layout(local_size_x = 256) in;
layout(constant_id = 0) const int W_DTYPE = 0;
layout(constant_id = 1) const int B_DTYPE = 0;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t part_w, part_b, dw, db;
  uint n, groups, blocks;  // blocks: of 32 outputs, for one of the two
};
#include "common/params.glsl"

shared float sums[256];

void main() {
  const bool bias = linear_group() >= p.blocks;
  const uint block = linear_group() - (bias ? p.blocks : 0u);
  const uint lane = gl_LocalInvocationID.x, o = block * 32u + (lane & 31u), slice = lane / 32u;
  const uint64_t part = bias ? p.part_b : p.part_w;
  float s[4] = float[4](0.0, 0.0, 0.0, 0.0);
  if (o < p.n) {
    uint g = slice;
    for (; g + 24u < p.groups; g += 32u)  // four loads at a time
      [[unroll]] for (uint i = 0; i < 4u; ++i) s[i] += F32Ref(part + (uint64_t(g + 8u * i) * p.n + o) * 4).v;
    for (; g < p.groups; g += 8u) s[0] += F32Ref(part + (uint64_t(g) * p.n + o) * 4).v;
  }
  sums[lane] = (s[0] + s[1]) + (s[2] + s[3]);
  barrier();  // all slices written
  if (slice != 0u || o >= p.n) return;
  float t = 0.0;
  [[unroll]] for (uint i = 0; i < 8u; ++i) t += sums[i * 32u + lane];
  if (bias) store_float(p.db, uint64_t(o), B_DTYPE, t);
  else store_float(p.dw, uint64_t(o), W_DTYPE, t);
}
