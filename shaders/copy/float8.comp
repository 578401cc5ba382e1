// Numbers of 8 bits to floats and back, one invocation each, both dense: float8 of FORMAT is storage only.
#include "common/dtype.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;  // of the floats
layout(constant_id = 1) const int FORMAT = 0;
layout(constant_id = 2) const bool DECODES = true;
layout(constant_id = 3) const bool SATURATES = true;
struct Params {
  uint64_t floats, bytes;
  uint64_t n;
};
#include "common/params.glsl"
#include "common/float8.glsl"

void main() {
  const uint64_t i = linear_invocation();
  if (i >= p.n) return;
  if (DECODES) store_float(p.floats, i, DTYPE, decode_float8(uint(U8Ref(p.bytes + i).v), FORMAT));
  else U8Ref(p.bytes + i).v = uint8_t(encode_float8(load_float(p.floats, i, DTYPE), FORMAT, SATURATES));
}
