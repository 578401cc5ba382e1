#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Weights of an antialiased resampling along one axis: of output o, at the inputs first[o] to first[o] + count[o].
// The filter is stretched by the scale where the output is smaller; the weights add up to 1. One invocation per output.
// INTEGER: weights of 8-bit images, as int32 with `bits` binary places. The filters are Pillow's: triangle, cubic
// (a = -0.5), Lanczos of three lobes.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int FILTER = 0;  // 0 triangle, 1 cubic, 2 Lanczos
layout(constant_id = 1) const bool INTEGER = false;
struct Params {
  uint64_t ranges;   // int32 {first, count} of each output
  uint64_t weights;  // [outputs, taps]
  uint64_t scale_bits;  // of a double: inputs per output
  int inputs, outputs, taps, bits;
  float scale;
};
#include "common/params.glsl"

// sin(pi x) / (pi x) for |x| < 3, by its series: no function of doubles.
REAL sinc(REAL x) {
  const REAL pi = REAL(3.14159265358979323846lf);
  // sin(pi x) = +-sin(pi r), r = x - round(x)
  const REAL whole = floor(x + REAL(0.5)), r = (x - whole) * pi, z = r * r;
  REAL s = REAL(0);
  for (int k = 10; k >= 1; --k) s = (REAL(1) - s) * z / REAL(2 * k * (2 * k + 1));
  s = r * (REAL(1) - s);
  if (whole - REAL(2) * floor(whole / REAL(2)) != REAL(0)) s = -s;
  return x == REAL(0) ? REAL(1) : s / (pi * x);
}
REAL filtered(REAL x) {
  x = abs(x);
  if (FILTER == 0) return x < REAL(1) ? REAL(1) - x : REAL(0);
  if (FILTER == 2) return x < REAL(3) ? sinc(x) * sinc(x / REAL(3)) : REAL(0);
  if (x < REAL(1)) return (REAL(1.5) * x - REAL(2.5)) * x * x + REAL(1);
  if (x < REAL(2)) return ((REAL(-0.5) * x + REAL(2.5)) * x - REAL(4)) * x + REAL(2);
  return REAL(0);
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.outputs)) return;
#ifdef C_double
  const double scale = packDouble2x32(unpackUint2x32(p.scale_bits));
#else
  const float scale = p.scale;
#endif
  const REAL stretch = scale >= REAL(1) ? scale : REAL(1), shrink = REAL(1) / stretch;
  const REAL support = REAL(FILTER + 1) * stretch, center = scale * (REAL(int(id)) + REAL(0.5));
  const int first = max(int(center - support + REAL(0.5)), 0);
  const int count = clamp(min(int(center + support + REAL(0.5)), p.inputs) - first, 0, p.taps);
  I32Ref(p.ranges + id * 8).v = first;
  I32Ref(p.ranges + id * 8 + 4).v = count;
  REAL total = REAL(0);
  for (int k = 0; k < count; ++k) total += filtered((REAL(first + k) - center + REAL(0.5)) * shrink);
  const REAL unit = total != REAL(0) ? REAL(1) / total : REAL(1);
  for (int k = 0; k < count; ++k) {
    const REAL w = filtered((REAL(first + k) - center + REAL(0.5)) * shrink) * unit;
    const uint64_t at = id * uint64_t(p.taps) + uint64_t(k);
    if (INTEGER) {
      const REAL scaled = w * REAL(1 << p.bits);
      I32Ref(p.weights + at * 4).v = int(scaled < REAL(0) ? scaled - REAL(0.5) : scaled + REAL(0.5));
    } else {
      STORE(p.weights, at, REAL_DTYPE, w);
    }
  }
}
