#pragma aule axis C float double
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
// Rows normalised and scaled: layer norm, group norm (a row is one group of one sample) and RMS norm.
//   y = (x - mean) rstd w + b,   rstd = 1 / sqrt(var + eps)      RMS: mean 0, var = mean of x^2
// w and b are per element of the row, or (CHANNEL) one per run of `hw` elements: channel (row % groups) * channels + k / hw.
//
// Mean and variance come from one pass over sums of x - x[0] and its square, combined every BLOCK elements (Chan), so that
// neither a large mean nor a long row costs digits. GROUP 0: one invocation per row, the second pass reads again.
// GROUP 1: one workgroup per row; up to 4 * ITEMS * LOCAL elements stay in registers: one read, one write.
#ifdef C_double
#define AULE_DOUBLE
#endif
layout(constant_id = 0) const int DT_X = 0;
layout(constant_id = 1) const int DT_Y = 0;
layout(constant_id = 2) const int DT_W = 0;
layout(constant_id = 3) const int DT_B = 0;
layout(constant_id = 4) const int RMS = 0;
layout(constant_id = 5) const int CHANNEL = 0;
layout(constant_id = 6) const int HAS_W = 0;
layout(constant_id = 7) const int HAS_B = 0;
layout(constant_id = 8) const int VEC = 0;
layout(constant_id = 9) const int ITEMS = 1;
layout(constant_id = 10) const int LOCAL = 8;
layout(local_size_x_id = 10) in;
const int KEPT = ITEMS > 0 ? ITEMS : 1;
#include "common/indexing.glsl"
#include "reduce/rows.glsl"

struct Params {
  uint64_t x, y, w, b, mean, rstd;  // mean: 0 for RMS
  uint64_t rows;
  uint n, hw, groups, channels;     // hw, groups, channels: with CHANNEL
  float eps;
};
#include "common/params.glsl"
#include "reduce/norm_common.glsl"

const uint BLOCK = 1024;

#if GROUP
shared C tree_n[LOCAL], tree_m[LOCAL], tree_q[LOCAL];
#endif

V4 normal(V4 v, C mean, C rstd, uint64_t row, uint k) {
  v = (v - mean) * rstd;
  if (HAS_W != 0) v *= affine(p.w, DT_W, row, k);
  if (HAS_B != 0) v += affine(p.b, DT_B, row, k);
  return v;
}

void main() {
#if GROUP
  uint64_t row = uint64_t(linear_group());
#else
  uint64_t row = linear_invocation();
#endif
  if (row >= p.rows) return;  // GROUP 1: the whole workgroup leaves
  Row x = Row(p.x, row * p.n, uint64_t(1), p.n), y = Row(p.y, row * p.n, uint64_t(1), p.n);
  C shift = RMS != 0 ? C(0) : load1(p.x, row * p.n, DT_X);
  Moments t = Moments(C(0), C(0), C(0));
#if GROUP
  uint lane = gl_LocalInvocationID.x;
  V4 kept[KEPT];
  if (ITEMS > 0) {
    V4 s1 = V4(0), s2 = V4(0);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) kept[j] = fetch(x, (j * LOCAL + lane) * 4u, DT_X, shift);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) {
      V4 d = kept[j] - shift;
      s1 += d;
      s2 += d * d;
    }
    C count = C(0);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) count += C(min(4u, p.n - min(p.n, (j * LOCAL + lane) * 4u)));
    t = moments(count, shift, sum4(s1), sum4(s2));
  } else {
    for (uint first = 0; first < p.n; first += LOCAL * 256u) {
      uint last = min(p.n, first + LOCAL * 256u);
      V4 s1 = V4(0), s2 = V4(0);
      C count = C(0);
      for (uint k = first + lane * 4u; k < last; k += LOCAL * 4u) {
        V4 d = fetch(x, k, DT_X, shift) - shift;
        s1 += d;
        s2 += d * d;
        count += C(min(4u, p.n - k));
      }
      t = combine(t, moments(count, shift, sum4(s1), sum4(s2)));
    }
  }
  tree_n[lane] = t.n;
  tree_m[lane] = t.mean;
  tree_q[lane] = t.m2;
  barrier();  // all of the tree written
  for (uint h = LOCAL / 2; h > 0u; h /= 2) {
    if (lane < h) {
      t = combine(t, Moments(tree_n[lane + h], tree_m[lane + h], tree_q[lane + h]));
      tree_n[lane] = t.n;
      tree_m[lane] = t.mean;
      tree_q[lane] = t.m2;
    }
    barrier();  // this level done
  }
  t = Moments(tree_n[0], tree_m[0], tree_q[0]);
#else
  for (uint first = 0; first < p.n; first += BLOCK) {
    uint last = min(p.n, first + BLOCK);
    V4 s1 = V4(0), s2 = V4(0);
    for (uint k = first; k < last; k += 4u) {
      V4 d = fetch(x, k, DT_X, shift) - shift;
      s1 += d;
      s2 += d * d;
    }
    t = combine(t, moments(C(last - first), shift, sum4(s1), sum4(s2)));
  }
#endif
  C mean = RMS != 0 ? C(0) : t.mean;
  C rstd = C(1) / sqrt((RMS != 0 ? t.m2 / t.n + t.mean * t.mean : t.m2 / t.n) + C(p.eps));
#if GROUP
  if (lane == 0u) {
    if (RMS == 0) store_stat(p.mean, row, mean);
    store_stat(p.rstd, row, rstd);
  }
  if (ITEMS > 0) {
    [[unroll]] for (int j = 0; j < ITEMS; ++j) {
      uint k = (j * LOCAL + lane) * 4u;
      put(y, k, DT_Y, normal(kept[j], mean, rstd, row, k));
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) put(y, k, DT_Y, normal(fetch(x, k, DT_X, C(0)), mean, rstd, row, k));
  }
#else
  if (RMS == 0) store_stat(p.mean, row, mean);
  store_stat(p.rstd, row, rstd);
  for (uint k = 0; k < p.n; k += 4u) put(y, k, DT_Y, normal(fetch(x, k, DT_X, C(0)), mean, rstd, row, k));
#endif
}
