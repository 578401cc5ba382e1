#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_in[i] = mask[i] ? grad_out[i] * scale : 0, over dense memory of one layout.
#ifdef C_double
#define AULE_DOUBLE
#endif
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DT = AULE_DT_F32;

struct Params {
  uint64_t grad_out;
  uint64_t grad_in;
  uint64_t mask;  // bool
  uint64_t n;
  float scale;
};
#include "common/params.glsl"

void main() {
  uint64_t first = uint64_t(linear_group()) * 512 + uint64_t(gl_LocalInvocationID.x);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    uint64_t i = first + uint64_t(k * 128);
    if (i >= p.n) continue;
    bool kept = uint(U8Ref(p.mask + i).v) != 0u;
#ifdef C_double
    store_double(p.grad_in, i, DT, kept ? load_double(p.grad_out, i, DT) * double(p.scale) : 0.0lf);
#else
    store_float(p.grad_in, i, DT, kept ? load_float(p.grad_out, i, DT) * p.scale : 0.0);
#endif
  }
}
