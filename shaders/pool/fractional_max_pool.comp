#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Max pooling over windows whose places are drawn (Graham, "Fractional Max-Pooling", 2014): out and the flat index of
// the maximum in its plane. Output o's window begins at int((o + u) a) - int(u a), a = (in - kernel) / (out - 1), u a
// sample of the plane; the last one ends with the input. A window's NaN wins, and of several the last. One invocation
// per output; planes (batch x channel) of contiguous D x H x W.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
struct Params {
  uint64_t in_, samples, out_, indices;
  uint64_t n;
  uint sample_count;  // of a plane: 2 or 3
  int sample_at[3];   // which is dimension d's
  int in_size[3], out_size[3], kernel[3];
};
#include "common/params.glsl"

// Rounded as the CPU's arithmetic in the storage dtype is, which decides where a window begins.
REAL stored(REAL x) {
  if (DTYPE == AULE_DT_F16) return REAL(float16_t(float(x)));
  if (DTYPE == AULE_DT_BF16) return REAL(bf16_to_float(float_to_bf16(float(x))));
  return x;
}

int window_begin(int d, int o, uint64_t plane) {
  const int last = p.in_size[d] - p.kernel[d];
  if (o == p.out_size[d] - 1) return last;
  const REAL u = LOAD(p.samples, plane * uint64_t(p.sample_count) + uint64_t(p.sample_at[d]), DTYPE);
  const REAL a = stored(stored(REAL(last)) / stored(REAL(p.out_size[d] - 1)));
  const int begin = int(stored(stored(stored(REAL(o)) + u) * a)) - int(stored(u * a));
  return clamp(begin, 0, last);
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  const uint64_t plane = id / uint64_t(out_plane);
  const int o = int(id - plane * uint64_t(out_plane));
  const int z0 = window_begin(0, o / (p.out_size[1] * p.out_size[2]), plane);
  const int y0 = window_begin(1, (o / p.out_size[2]) % p.out_size[1], plane);
  const int x0 = window_begin(2, o % p.out_size[2], plane);
  const uint64_t base = plane * (uint64_t(p.in_size[0]) * uint64_t(p.in_size[1]) * uint64_t(p.in_size[2]));
  REAL best = REAL(uintBitsToFloat(0xff800000u));
  int at = (z0 * p.in_size[1] + y0) * p.in_size[2] + x0;
  for (int z = z0; z < z0 + p.kernel[0]; ++z) {
    for (int y = y0; y < y0 + p.kernel[1]; ++y) {
      for (int x = x0; x < x0 + p.kernel[2]; ++x) {
        const int i = (z * p.in_size[1] + y) * p.in_size[2] + x;
        const REAL v = LOAD(p.in_, base + uint64_t(i), DTYPE);
        if (v > best || isnan(v)) {
          best = v;
          at = i;
        }
      }
    }
  }
  STORE(p.out_, id, DTYPE, best);
  I64Ref(p.indices + id * 8).v = int64_t(at);
}
