// Draws classes with replacement: the first class whose running sum of weights exceeds u * total. One invocation per
// sample, bisection. Contiguous float32 weights and inclusive prefix sums (rows, classes), int64 out (rows, samples).
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"

struct Params {
  uint64_t weights;
  uint64_t sums;
  uint64_t dst;
  uint64_t n;  // rows * samples
  uint64_t seed, offset, state;
  uint classes, samples;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  Philox g = philox_begin(p.seed, p.offset, p.state);
  uint64_t row = id / p.samples * p.classes;
  float total = F32Ref(p.sums + (row + p.classes - 1u) * 4).v;
  // Less than the total even after rounding.
  float u = min(uniform01(philox_draw(g, id, 0u).x) * total, uintBitsToFloat(max(floatBitsToUint(total), 1u) - 1u));
  uint low = 0u, high = p.classes - 1u;
  while (low < high) {
    uint middle = (low + high) / 2u;
    if (F32Ref(p.sums + (row + middle) * 4).v > u) high = middle; else low = middle + 1u;
  }
  // The rounding of a parallel prefix sum may put a class of weight 0 here. Step to a neighbour with a weight.
  while (low + 1u < p.classes && !(F32Ref(p.weights + (row + low) * 4).v > 0.0)) ++low;
  while (low > 0u && !(F32Ref(p.weights + (row + low) * 4).v > 0.0)) --low;
  I64Ref(p.dst + id * 8).v = int64_t(low);
}
