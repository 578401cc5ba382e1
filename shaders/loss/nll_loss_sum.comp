#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Adds the partial {loss, weight} pairs of nll_loss.comp: one workgroup, each invocation a strided part, then a tree.
// The mean over nothing (every target ignored) is NaN, as in PyTorch.
layout(constant_id = 2) const int LOCAL = 64;
layout(local_size_x_id = 2) in;
#include "common/dtype.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const bool MEAN = false;

struct Params {
  uint64_t partial;
  uint64_t loss;
  uint64_t total_weight;
  uint chunks;
};
#include "common/params.glsl"

#include "common/real.glsl"
#ifdef C_double
#define PAIR dvec2
const uint kPairBytes = 16;
#else
#define PAIR vec2
const uint kPairBytes = 8;
#endif

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PairRef { PAIR v; };
const uint UNROLL = 8;  // loads in flight: there is only one workgroup

shared REAL losses[LOCAL];
shared REAL weights[LOCAL];

void main() {
  uint id = gl_LocalInvocationID.x;
  REAL loss = REAL(0), weight = REAL(0);
  for (uint i = id; i < p.chunks; i += LOCAL * UNROLL) {
    PAIR pairs[UNROLL];
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
      pairs[u] = PAIR(0);
      if (i + u * LOCAL < p.chunks) pairs[u] = PairRef(p.partial + uint64_t(i + u * LOCAL) * kPairBytes).v;
    }
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
      loss += pairs[u].x;
      weight += pairs[u].y;
    }
  }
  losses[id] = loss;
  weights[id] = weight;
  for (uint half_size = LOCAL / 2u; half_size > 0u; half_size /= 2u) {
    barrier();  // the upper half's sums are written before the lower half reads them
    if (id < half_size) {
      losses[id] += losses[id + half_size];
      weights[id] += weights[id + half_size];
    }
  }
  if (id != 0u) return;
  REAL result = losses[0];
  if (MEAN) result = weights[0] == REAL(0) ? REAL(uintBitsToFloat(0x7fc00000u)) : result / weights[0];
  STORE(p.loss, uint64_t(0), DTYPE, result);
  STORE(p.total_weight, uint64_t(0), DTYPE, weights[0]);
}
