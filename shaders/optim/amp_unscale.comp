// x *= inv_scale over many dense tensors at once; found_inf = 1 where any x is infinite or not a number.
// All writers of found_inf store the same 1, so the race is harmless.
#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/multi_tensor.glsl"
#include "common/real.glsl"

struct Params {
  uint64_t data[TENSORS];
  uint64_t found_inf;
  uint64_t inv_scale;
  uint elems[TENSORS];
  uint first_group[TENSORS];
  uint tensors;
};
#include "common/params.glsl"

layout(constant_id = 0) const int DTYPE = 0;

void main() {
  AULE_FIND_TENSOR
  float s = F32Ref(p.inv_scale).v;
  bool bad = false;
  for (uint k = begin; k < end; k += LOCAL) {
    REAL x = LOAD(p.data[t], uint64_t(k), DTYPE);
    bad = bad || !is_finite(x);
    STORE(p.data[t], uint64_t(k), DTYPE, s == 1.0 ? x : x * s);
  }
  if (bad) F32Ref(p.found_inf).v = 1.0;
}
