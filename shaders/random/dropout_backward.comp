#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_in[i] = mask[i] ? grad_out[i] * scale : 0, over dense memory of one layout; 4 elements each, BY_VEC4 as in
// dropout.comp.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "random/vec4.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const bool BY_VEC4 = false;

struct Params {
  uint64_t grad_out;
  uint64_t grad_in;
  uint64_t mask;  // bool
  uint64_t n;
  uint64_t scale_bits;  // of a double
  float scale;
};
#include "common/params.glsl"

void main() {
  uint64_t first = linear_invocation() * 4;
  if (first >= p.n) return;
#ifndef C_double
  if (BY_VEC4) {
    uvec4 kept = uvec4(U32Ref(p.mask + first).v) & uvec4(0xffu, 0xff00u, 0xff0000u, 0xff000000u);
    store_vec4(p.grad_in, first, DTYPE, mix(vec4(0.0), load_vec4(p.grad_out, first, DTYPE) * p.scale,
        notEqual(kept, uvec4(0u))));
    return;
  }
#endif
  [[unroll]] for (int k = 0; k < 4; ++k) {
    uint64_t i = first + uint64_t(k);
    if (i >= p.n) continue;
    bool kept = uint(U8Ref(p.mask + i).v) != 0u;
#ifdef C_double
    store_double(p.grad_in, i, DTYPE, kept ? load_double(p.grad_out, i, DTYPE) *
        packDouble2x32(unpackUint2x32(p.scale_bits)) : 0.0lf);
#else
    store_float(p.grad_in, i, DTYPE, kept ? load_float(p.grad_out, i, DTYPE) * p.scale : 0.0);
#endif
  }
}
