#pragma aule axis C float double
#pragma aule feature float64 if C=double
// mask[i] = u[i] < keep, out[i] = mask[i] ? in[i] * scale : 0, over dense memory of any layout. Draws as in random_fill.comp.
#ifdef C_double
#define AULE_DOUBLE
#endif
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"

layout(constant_id = 0) const int DT = AULE_DT_F32;

struct Params {
  uint64_t src;
  uint64_t dst;
  uint64_t mask;  // bool
  uint64_t n;
  uint64_t seed, offset, state;
  float keep, scale;
};
#include "common/params.glsl"

void main() {
  Philox g = philox_begin(p.seed, p.offset, p.state);
  vec4 u = uniform01(philox_draw(g, linear_invocation(), 0u));
  uint64_t first = uint64_t(linear_group()) * 512 + uint64_t(gl_LocalInvocationID.x);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    uint64_t i = first + uint64_t(k * 128);
    if (i >= p.n) continue;
    bool kept = u[k] < p.keep;
    U8Ref(p.mask + i).v = uint8_t(kept ? 1u : 0u);
#ifdef C_double
    store_double(p.dst, i, DT, kept ? load_double(p.src, i, DT) * double(p.scale) : 0.0lf);
#else
    store_float(p.dst, i, DT, kept ? load_float(p.src, i, DT) * p.scale : 0.0);
#endif
  }
}
