// Sums of parts in fixed order: result[i] = sum over j of part[j][i], float32 (grouped_conv_weight.comp). A workgroup
// has COLUMNS neighbours i in SLICES shares of the parts, which it adds in shared memory. SLICES 1: no barrier.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 64;
layout(constant_id = 1) const int DTYPE = 0;  // of the result
layout(constant_id = 2) const uint SLICES = 1;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
struct Params {
  uint64_t part, result;
  uint n, parts;
};
#include "common/params.glsl"
const uint COLUMNS = LOCAL / SLICES, AT_ONCE = 8;
shared float sums[SLICES == 1 ? 1 : LOCAL];

void main() {
  const uint t = gl_LocalInvocationID.x, i = linear_group() * COLUMNS + t % COLUMNS, slice = t / COLUMNS;
  float sum = 0.0;
  if (i < p.n) {
    for (uint j = slice * AT_ONCE; j < p.parts; j += SLICES * AT_ONCE) {
      float x[AT_ONCE];  // in flight together
      [[unroll]] for (uint k = 0u; k < AT_ONCE; ++k) {
        x[k] = 0.0;
        if (j + k < p.parts) x[k] = F32Ref(p.part + (uint64_t(j + k) * uint64_t(p.n) + uint64_t(i)) * 4).v;
      }
      [[unroll]] for (uint k = 0u; k < AT_ONCE; ++k) sum += x[k];
    }
  }
  if (SLICES > 1) {
    sums[t] = sum;
    barrier();  // the shares are written
    sum = 0.0;
    if (slice == 0u) {
      [[unroll]] for (uint s = 0u; s < SLICES; ++s) sum += sums[s * COLUMNS + t];
    }
  }
  if (slice == 0u && i < p.n) store_float(p.result, uint64_t(i), DTYPE, sum);
}
