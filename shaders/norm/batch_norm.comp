#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Batch norm, elementwise over x[samples, channels, hw] (contiguous), statistics per channel c:
//   MODE 0  y  = (x - mean) invstd w + b
//   MODE 1  dx = invstd w (g - sum_g / count - (x - mean) invstd sum_gh / count)    training
//   MODE 2  dx = invstd w g                                                        evaluation
//   MODE 3  as 1, but sum_gh lacks a factor invstd, and the count is the sum of `counts`: one of each process
// An invocation has one element, or four neighbours: of one channel (VEC 1, hw a multiple of 4), or of four
// (VEC 2, hw 1: rows of channels, as channels-last tensors have them) in ROWS neighbouring rows, whose statistics are
// loaded once.
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int G_DTYPE = 0;
layout(constant_id = 3) const int W_DTYPE = 0;
layout(constant_id = 4) const int B_DTYPE = 0;
layout(constant_id = 5) const int MODE = 0;
layout(constant_id = 6) const bool HAS_WEIGHT = false;
layout(constant_id = 7) const bool HAS_BIAS = false;
layout(constant_id = 8) const int VEC = 0;
layout(constant_id = 9) const uint ROWS = 1;
layout(constant_id = 10) const int LOCAL = 8;
layout(local_size_x_id = 10) in;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t x, grad, out_, mean, invstd, w, b;  // mean and invstd are of the arithmetic type
  uint64_t sum_g, sum_gh;                      // MODE 1, 3: sums of g and of g (x - mean) invstd, of that type too
  uint64_t counts;                             // MODE 3: int32
  uint64_t numel, count;
  uint channels, hw, parts;                    // parts: elements of counts
};
#include "common/params.glsl"

V4 of_channel(uint64_t base, uint64_t c, int dt) {
#ifndef C_double
  if (VEC == 2) return load4(base, c, dt);
#endif
  return V4(load1(base, c, dt));
}

C elements_of_channel() {
  if (MODE != 3) return C(p.count);
  int64_t sum = int64_t(0);
  for (uint i = 0; i < p.parts; ++i) sum += load_int64(p.counts, uint64_t(i), AULE_DT_I32);
  return C(sum);
}

void main() {
  const uint64_t id = linear_invocation();
  uint64_t i = id * (VEC != 0 ? 4 : 1), c;
  if (VEC == 2) {
    const uint width = p.channels / 4u;
    const uint64_t block = (p.numel >> 32) == 0 ? uint64_t(uint(id) / width) : id / width;
    c = (id - block * width) * 4;
    i = block * ROWS * p.channels + c;
  } else {
    c = i / p.hw % p.channels;
  }
  if (i >= p.numel) return;
  const V4 mean = of_channel(p.mean, c, STAT_DTYPE), invstd = of_channel(p.invstd, c, STAT_DTYPE);
  V4 scale = invstd, bias = V4(0), mg = V4(0), mh = V4(0);
  if (HAS_WEIGHT) scale *= of_channel(p.w, c, W_DTYPE);
  if (MODE == 0 && HAS_BIAS) bias = of_channel(p.b, c, B_DTYPE);
  if (MODE == 1 || MODE == 3) {
    const C count = elements_of_channel();
    mg = of_channel(p.sum_g, c, STAT_DTYPE) / count;
    mh = of_channel(p.sum_gh, c, STAT_DTYPE) / count * invstd;
    if (MODE == 3) mh *= invstd;
  }
  const uint n = VEC != 0 ? 4u : 1u;
  V4 x[ROWS], g[ROWS];
  [[unroll]] for (uint k = 0u; k < ROWS; ++k) {
    const uint64_t own = i + k * p.channels, at = own < p.numel ? own : i;  // loads without a branch
    if (MODE != 2) x[k] = fetch(Row(p.x, at, uint64_t(1), n), 0u, X_DTYPE, C(0));
    if (MODE != 0) g[k] = fetch(Row(p.grad, at, uint64_t(1), n), 0u, G_DTYPE, C(0));
  }
  [[unroll]] for (uint k = 0u; k < ROWS; ++k) {
    const uint64_t at = i + k * p.channels;
    V4 y;
    if (MODE == 0) {
      y = (x[k] - mean) * scale;
      if (HAS_BIAS) y += bias;
    } else {
      y = g[k];
      if (MODE != 2) y -= mg + (x[k] - mean) * mh;
      y *= scale;
    }
    if (at < p.numel) put(Row(p.out_, at, uint64_t(1), n), 0u, OUT_DTYPE, y);
  }
}
