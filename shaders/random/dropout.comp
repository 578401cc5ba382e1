#pragma aule axis C float double
#pragma aule feature float64 if C=double
// mask[i] = u[i] >= drop, both of 32 bits; out[i] = mask[i] ? in[i] * scale : 0, over dense memory of any layout.
// An invocation draws once for 4 consecutive elements: element i takes component i % 4 of subsequence i / 4, so results
// do not depend on the grid. BY_VEC4 (2- and 4-byte dtypes, n a multiple of 4): 64-bit accesses, a third as many.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"
#include "random/vec4.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const bool BY_VEC4 = false;

struct Params {
  uint64_t src;
  uint64_t dst;
  uint64_t mask;  // bool
  uint64_t n;
  uint64_t seed, offset, state;
  uint64_t scale_bits;  // of a double
  uint drop;            // p in 2^-32
  float scale;
};
#include "common/params.glsl"

void main() {
  uint64_t first = linear_invocation() * 4;
  if (first >= p.n) return;
  Philox g = philox_begin(p.seed, p.offset, p.state);
  bvec4 kept = greaterThanEqual(philox_draw(g, first / 4, 0u), uvec4(p.drop));
#ifndef C_double
  if (BY_VEC4) {
    store_vec4(p.dst, first, DTYPE, mix(vec4(0.0), load_vec4(p.src, first, DTYPE) * p.scale, kept));
    U32Ref(p.mask + first).v = uint(kept.x) | uint(kept.y) << 8 | uint(kept.z) << 16 | uint(kept.w) << 24;
    return;
  }
#endif
  [[unroll]] for (int k = 0; k < 4; ++k) {
    uint64_t i = first + uint64_t(k);
    if (i >= p.n) continue;
    U8Ref(p.mask + i).v = uint8_t(kept[k] ? 1u : 0u);
#ifdef C_double
    store_double(p.dst, i, DTYPE, kept[k] ?
        load_double(p.src, i, DTYPE) * packDouble2x32(unpackUint2x32(p.scale_bits)) : 0.0lf);
#else
    store_float(p.dst, i, DTYPE, kept[k] ? load_float(p.src, i, DTYPE) * p.scale : 0.0);
#endif
  }
}
