#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Batch norm, elementwise over x[samples, channels, hw] (contiguous), statistics per channel c:
//   MODE 0  y  = (x - mean) invstd w + b
//   MODE 1  dx = invstd w (g - sum_g / count - (x - mean) invstd sum_gh / count)    training
//   MODE 2  dx = invstd w g                                                        evaluation
// An invocation has one element, or with VEC (hw a multiple of 4) four neighbours, which are of one channel.
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int G_DTYPE = 0;
layout(constant_id = 3) const int MODE = 0;
layout(constant_id = 4) const bool HAS_WEIGHT = false;
layout(constant_id = 5) const bool HAS_BIAS = false;
layout(constant_id = 6) const int VEC = 0;
layout(constant_id = 7) const int LOCAL = 8;
layout(local_size_x_id = 7) in;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t x, grad, out_, mean, invstd, w, b;  // w, b and all statistics are of the arithmetic type
  uint64_t sum_g, sum_gh;                      // MODE 1: sums of g and of g (x - mean) invstd
  uint64_t numel;
  uint channels, hw;
  float count;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation() * (VEC != 0 ? 4 : 1);
  if (i >= p.numel) return;
  uint64_t c = i / p.hw % p.channels;
  Row x = Row(p.x, i, uint64_t(1), VEC != 0 ? 4u : 1u), g = Row(p.grad, i, uint64_t(1), x.n),
      o = Row(p.out_, i, uint64_t(1), x.n);
  C mean = load1(p.mean, c, STAT_DTYPE), invstd = load1(p.invstd, c, STAT_DTYPE);
  C scale = invstd * (HAS_WEIGHT ? load1(p.w, c, STAT_DTYPE) : C(1));
  V4 y;
  if (MODE == 0) {
    y = (fetch(x, 0u, X_DTYPE, C(0)) - mean) * scale;
    if (HAS_BIAS) y += load1(p.b, c, STAT_DTYPE);
  } else {
    y = fetch(g, 0u, G_DTYPE, C(0));
    if (MODE == 1) {
      C mg = load1(p.sum_g, c, STAT_DTYPE) / C(p.count), mh = load1(p.sum_gh, c, STAT_DTYPE) / C(p.count);
      y -= mg + (fetch(x, 0u, X_DTYPE, C(0)) - mean) * invstd * mh;
    }
    y *= scale;
  }
  put(o, 0u, OUT_DTYPE, y);
}
