// The loss scale after a step: multiplied by backoff if an infinity was found, or by growth after `interval` good
// steps, unless that overflows. One invocation.
#include "common/dtype.glsl"

struct Params {
  uint64_t scale;
  uint64_t growth_tracker;
  uint64_t found_inf;
  float growth;
  float backoff;
  int interval;
};
#include "common/params.glsl"

layout(local_size_x = 1) in;

void main() {
  if (F32Ref(p.found_inf).v != 0.0) {
    F32Ref(p.scale).v *= p.backoff;
    I32Ref(p.growth_tracker).v = 0;
    return;
  }
  int good = I32Ref(p.growth_tracker).v + 1;
  if (good == p.interval) {
    float grown = F32Ref(p.scale).v * p.growth;
    if ((floatBitsToUint(grown) & 0x7f800000u) != 0x7f800000u) F32Ref(p.scale).v = grown;
    good = 0;
  }
  I32Ref(p.growth_tracker).v = good;
}
