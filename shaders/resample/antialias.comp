#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Resampling along one axis by the table of antialias_weights.comp, of tensors [outer, axis, inner]:
//   forward:   out[o] = sum over k of weight[o, k] * in[first[o] + k]
//   BACKWARD:  grad_in[i] = sum over the outputs o that read i of weight[o, i - first[o]] * grad_out[o]: gathered
// One invocation per result. Of uint8, weights are integers with `bits` binary places, and results are rounded.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int IN_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const bool BACKWARD = false;
struct Params {
  uint64_t in_, out_;  // BACKWARD: grad_out, grad_in
  uint64_t ranges, weights;
  uint64_t n;          // results
  uint64_t inner;
  int inputs, outputs, taps, bits;
  float scale, reach;  // BACKWARD: outputs whose centers are at most `reach` away
};
#include "common/params.glsl"

int first_of(int o) { return I32Ref(p.ranges + uint64_t(o) * 8).v; }
int count_of(int o) { return I32Ref(p.ranges + uint64_t(o) * 8 + 4).v; }
uint64_t weight_at(int o, int k) { return uint64_t(o) * uint64_t(p.taps) + uint64_t(k); }

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const int size = BACKWARD ? p.inputs : p.outputs, other = BACKWARD ? p.outputs : p.inputs;
  const uint64_t line = id / p.inner, outer = line / uint64_t(size);
  const int at = int(line - outer * uint64_t(size));
  const uint64_t base = outer * uint64_t(other) * p.inner + (id - line * p.inner);
  if (BACKWARD) {
    int from = 0, to = p.outputs;
    if (p.scale > 0.0) {
      from = clamp(int(floor((float(at) + 0.5 - p.reach) / p.scale - 0.5)) - 1, 0, p.outputs);
      to = clamp(int(ceil((float(at) + 0.5 + p.reach) / p.scale - 0.5)) + 2, 0, p.outputs);
    }
    REAL sum = REAL(0);
    for (int o = from; o < to; ++o) {
      const int k = at - first_of(o);
      if (k >= 0 && k < count_of(o))
        sum += LOAD(p.weights, weight_at(o, k), REAL_DTYPE) * LOAD(p.in_, base + uint64_t(o) * p.inner, IN_DTYPE);
    }
    STORE(p.out_, id, OUT_DTYPE, sum);
    return;
  }
  const int first = first_of(at), count = count_of(at);
  if (IN_DTYPE == AULE_DT_U8) {
    int sum = 1 << (p.bits - 1);
    for (int k = 0; k < count; ++k)
      sum += I32Ref(p.weights + weight_at(at, k) * 4).v *
          load_int(p.in_, base + uint64_t(first + k) * p.inner, IN_DTYPE);
    store_int(p.out_, id, OUT_DTYPE, clamp(sum >> p.bits, 0, 255));
    return;
  }
  REAL sum = REAL(0);
  for (int k = 0; k < count; ++k)
    sum += LOAD(p.weights, weight_at(at, k), REAL_DTYPE) * LOAD(p.in_, base + uint64_t(first + k) * p.inner, IN_DTYPE);
  STORE(p.out_, id, OUT_DTYPE, sum);
}
