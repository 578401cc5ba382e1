// The largest sizes of two float32 tensors, of which one may be empty, into two words that are zeros: their bits are
// ordered as their values are, NaN above infinity. The first `of_x` workgroups read x, the others y.
#include "common/dtype.glsl"
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t x, y, out_;
  uint64_t x_count, y_count;
  uint of_x, of_y;  // workgroups
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint v; };
const uint LOADS = 8;
shared uint largest;

void main() {
  const uint t = gl_LocalInvocationID.x, group = linear_group();
  if (group >= p.of_x + p.of_y) return;  // the whole workgroup leaves
  const bool is_x = group < p.of_x;
  const uint groups = is_x ? p.of_x : p.of_y, step = groups * 256;
  const uint64_t from = is_x ? p.x : p.y, count = is_x ? p.x_count : p.y_count;
  if (t == 0) largest = 0;
  barrier();
  uint own = 0;
  for (uint64_t i = (is_x ? group : group - p.of_x) * 256 + t; i < count; i += uint64_t(step) * LOADS) {
    uint v[LOADS];
    [[unroll]] for (uint k = 0; k < LOADS; ++k) {
      const uint64_t at = i + uint64_t(step) * k;
      v[k] = at < count ? Word(from + at * 4).v & 0x7fffffffu : 0;
    }
    [[unroll]] for (uint k = 0; k < LOADS; ++k) own = max(own, v[k]);
  }
  atomicMax(largest, own);
  barrier();
  if (t == 0) atomicMax(Word(p.out_ + (is_x ? 0 : 4)).v, largest);
}
