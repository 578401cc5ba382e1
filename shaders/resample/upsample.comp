#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Resampling by nearest, linear and cubic interpolation, separable over up to three axes (1-D and 2-D have 1 in front).
//   forward:  out[n, o] = sum over taps t of weight(o, t) * in[n, index(o, t)]
//   backward: grad_in[n, i] = sum over the outputs that read i: gathered, so no atomics
// Source position of output o: align_corners: scale * o; else scale * (o + 0.5) - 0.5 (not below 0 when linear);
// nearest: floor(scale * o); exact nearest: floor(scale * (o + 0.5)). Cubic: Keys 1981 with a = -0.75, indices clamped.
// Layout: planes (batch x channel) of contiguous D x H x W.
#include "common/dtype.glsl"
#include "common/real.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int MODE = 0;  // 0 nearest, 1 exact nearest, 2 linear, 3 cubic
layout(constant_id = 2) const bool ALIGN_CORNERS = false;
struct Params {
  uint64_t in_, out_;  // backward: in_ = grad_out, out_ = grad_in
  uint64_t n;
  uint64_t scale_bits[3];  // of a REAL: input steps per output step
  int in_size[3], out_size[3];
};
#include "common/params.glsl"

REAL scale(int d) { return REAL_OF_BITS(p.scale_bits[d]); }

REAL cubic_near(REAL x) { return ((-0.75 + 2.0) * x - (-0.75 + 3.0)) * x * x + 1.0; }
REAL cubic_far(REAL x) { return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0; }

struct Taps {
  int index[4];
  REAL weight[4];
};

const int TAPS = MODE < 2 ? 1 : MODE == 2 ? 2 : 4;

Taps taps_of(int d, int o) {
  Taps t;
  int last = p.in_size[d] - 1;
  for (int k = 0; k < 4; ++k) {
    t.index[k] = 0;
    t.weight[k] = REAL(0);
  }
  if (MODE < 2) {
    REAL at = MODE == 0 ? REAL(o) * scale(d) : (REAL(o) + 0.5) * scale(d);
    t.index[0] = min(int(floor(at)), last);
    t.weight[0] = REAL(1);
    return t;
  }
  REAL at = ALIGN_CORNERS ? scale(d) * REAL(o) : scale(d) * (REAL(o) + 0.5) - 0.5;
  if (MODE == 2) {
    at = max(at, REAL(0));
    int i = min(int(at), last);
    REAL f = clamp(at - REAL(i), REAL(0), REAL(1));
    t.index[0] = i;
    t.index[1] = min(i + 1, last);
    t.weight[0] = 1.0 - f;
    t.weight[1] = f;
    return t;
  }
  // Axes in front of a 2-D image have one cell, and scale 1: all taps fall on it and their weights add up to 1.
  int i = int(floor(at));
  REAL f = at - REAL(i);
  REAL w[4] = REAL[4](cubic_far(f + 1.0), cubic_near(f), cubic_near(1.0 - f), cubic_far(2.0 - f));
  for (int k = 0; k < 4; ++k) {
    t.index[k] = clamp(i - 1 + k, 0, last);
    t.weight[k] = w[k];
  }
  return t;
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int in_plane = p.in_size[0] * p.in_size[1] * p.in_size[2];
  REAL sum = REAL(0);
#ifdef DIRECTION_forward
  uint64_t plane = id / uint64_t(out_plane);
  int o = int(id - plane * uint64_t(out_plane));
  Taps z = taps_of(0, o / (p.out_size[1] * p.out_size[2]));
  Taps y = taps_of(1, (o / p.out_size[2]) % p.out_size[1]);
  Taps x = taps_of(2, o % p.out_size[2]);
  uint64_t base = plane * uint64_t(in_plane);
  for (int a = 0; a < TAPS; ++a)
    for (int b = 0; b < TAPS; ++b)
      for (int c = 0; c < TAPS; ++c) {
        REAL w = z.weight[a] * y.weight[b] * x.weight[c];
        if (w != 0.0) sum += w * LOAD(p.in_, base + uint64_t((z.index[a] * p.in_size[1] + y.index[b]) *
            p.in_size[2] + x.index[c]), DTYPE);
      }
#else
  uint64_t plane = id / uint64_t(in_plane);
  int i = int(id - plane * uint64_t(in_plane));
  int at[3] = int[3](i / (p.in_size[1] * p.in_size[2]), (i / p.in_size[2]) % p.in_size[1], i % p.in_size[2]);
  int first[3], last[3];
  const REAL reach = REAL(MODE < 2 ? 1 : MODE == 2 ? 2 : 3);
  for (int d = 0; d < 3; ++d) {
    first[d] = 0;
    last[d] = p.out_size[d];
    if (scale(d) > 0.0) {
      first[d] = clamp(int(floor((REAL(at[d]) - reach) / scale(d))) - 1, 0, p.out_size[d]);
      last[d] = clamp(int(ceil((REAL(at[d]) + reach) / scale(d))) + 2, 0, p.out_size[d]);
      // Positions past the ends are clamped onto the edge cells.
      if (at[d] == 0) first[d] = 0;
      if (at[d] == p.in_size[d] - 1) last[d] = p.out_size[d];
    }
  }
  uint64_t base = plane * uint64_t(out_plane);
  for (int z = first[0]; z < last[0]; ++z) {
    Taps tz = taps_of(0, z);
    REAL wz = REAL(0);
    for (int k = 0; k < TAPS; ++k) wz += tz.index[k] == at[0] ? tz.weight[k] : REAL(0);
    if (wz == 0.0) continue;
    for (int y = first[1]; y < last[1]; ++y) {
      Taps ty = taps_of(1, y);
      REAL wy = REAL(0);
      for (int k = 0; k < TAPS; ++k) wy += ty.index[k] == at[1] ? ty.weight[k] : REAL(0);
      if (wy == 0.0) continue;
      for (int x = first[2]; x < last[2]; ++x) {
        Taps tx = taps_of(2, x);
        REAL wx = REAL(0);
        for (int k = 0; k < TAPS; ++k) wx += tx.index[k] == at[2] ? tx.weight[k] : REAL(0);
        if (wx != 0.0) sum += wz * wy * wx * LOAD(p.in_,
            base + uint64_t((z * p.out_size[1] + y) * p.out_size[2] + x), DTYPE);
      }
    }
  }
#endif
  STORE(p.out_, id, DTYPE, sum);
}
