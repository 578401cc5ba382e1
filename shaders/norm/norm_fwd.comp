#pragma aule axis C float double
#pragma aule axis GROUP 0 1 2
#pragma aule skip C=double GROUP=2
#pragma aule feature float64 if C=double
#pragma aule feature subgroup_arithmetic if GROUP=2
#pragma aule feature subgroup_shuffle if GROUP=2
#pragma aule inline
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// Layer norm, group norm (a row is one group of one sample) and RMS norm of rows:
//   y = (x - mean) rstd w + b,   rstd = 1 / sqrt(var + eps)      RMS norm: mean 0, var = mean of x^2
// w and b are per element of the row, or (PER_CHANNEL) one per run of `hw` elements:
// channel (row % groups) * channels + k / hw.
//
// GROUP 0: one invocation per row. The first pass sums x - x[0] and its square, and combines the sums every BLOCK
// elements (Chan), so a large mean or a long row costs no digits. The second pass reads the row again.
// GROUP 1, 2: one workgroup per row (rowwise_group.glsl, group_moments.glsl). A row of up to 4 * ITEMS * LOCAL elements
// stays in registers and is read once. Longer rows are read as with GROUP 0.
// What was tried, and what it gave: docs/ladders/norm_fwd.md
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int Y_DTYPE = 0;
layout(constant_id = 2) const int W_DTYPE = 0;
layout(constant_id = 3) const int B_DTYPE = 0;
layout(constant_id = 4) const bool IS_RMS = false;
layout(constant_id = 5) const bool PER_CHANNEL = false;
layout(constant_id = 6) const bool HAS_WEIGHT = false;
layout(constant_id = 7) const bool HAS_BIAS = false;
layout(constant_id = 8) const int VEC = 0;
layout(constant_id = 9) const int ITEMS = 1;
layout(constant_id = 10) const int LOCAL = 8;
layout(local_size_x_id = 10) in;
layout(constant_id = 11) const bool IS_FULL = false;
const int KEPT = ITEMS > 0 ? ITEMS : 1;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t x, y, w, b, mean, rstd;  // mean: 0 for IS_RMS
  uint64_t rows;
  uint n, hw, groups, channels;     // hw, groups, channels: with PER_CHANNEL
  float eps;
};
#include "common/params.glsl"
#include "norm/norm_common.glsl"

const uint BLOCK = 1024;

#if GROUP
#include "norm/rowwise_group.glsl"
#include "norm/group_moments.glsl"
// If true, weight and bias are loaded before the workgroup waits for its sums.
const bool EARLY = VEC != 0 && !PER_CHANNEL;
#endif

V4 normal(V4 v, C mean, C rstd, uint64_t row, uint k) {
  v = (v - mean) * rstd;
  if (HAS_WEIGHT) v *= affine(p.w, W_DTYPE, row, k);
  if (HAS_BIAS) v += affine(p.b, B_DTYPE, row, k);
  return v;
}

uint64_t row;
Row x, y;
Moments t;

// The moments of a row that is not kept in registers.
#if GROUP
uint lane;
void read_moments() {
  const C shift = IS_RMS ? C(0) : load1(p.x, row * p.n, X_DTYPE);
  for (uint first = 0; first < p.n; first += LOCAL * 256u) {
    uint last = min(p.n, first + LOCAL * 256u);
    V4 s1 = V4(0), s2 = V4(0);
    C count = C(0);
    for (uint k = first + lane * 4u; k < last; k += LOCAL * 4u) {
      V4 d = fetch(x, k, X_DTYPE, shift) - shift;
      s1 += d;
      s2 += d * d;
      count += C(min(4u, p.n - k));
    }
    if (IS_RMS) t = Moments(t.n + count, C(0), t.m2 + sum4(s2));
    else t = combine(t, moments(count, shift, sum4(s1), sum4(s2)));
  }
  const C mean = group_sum(Pair(t.n * t.mean, C(0))).a / C(p.n), d = t.mean - mean;
  t = Moments(C(p.n), mean, group_sum(Pair(t.m2 + t.n * d * d, C(0))).a);
}
#else
void read_moments() {
  const C shift = IS_RMS ? C(0) : load1(p.x, row * p.n, X_DTYPE);
  for (uint first = 0; first < p.n; first += BLOCK) {
    uint last = min(p.n, first + BLOCK);
    V4 s1 = V4(0), s2 = V4(0);
    for (uint k = first; k < last; k += 4u) {
      V4 d = fetch(x, k, X_DTYPE, shift) - shift;
      s1 += d;
      s2 += d * d;
    }
    if (IS_RMS) t = Moments(t.n + C(last - first), C(0), t.m2 + sum4(s2));
    else t = combine(t, moments(C(last - first), shift, sum4(s1), sum4(s2)));
  }
}
#endif

void main() {
#if GROUP
  row = uint64_t(linear_group());
#else
  row = linear_invocation();
#endif
  if (row >= p.rows) return;  // GROUP 1: the whole workgroup leaves
  x = Row(p.x, row * p.n, uint64_t(1), p.n);
  y = Row(p.y, row * p.n, uint64_t(1), p.n);
  t = Moments(C(0), C(0), C(0));
#if GROUP
  lane = gl_LocalInvocationID.x;
  V4 kept[KEPT];
#ifndef C_double
  u64vec2 early_w[KEPT], early_b[KEPT];
#endif
  if (ITEMS > 0) {
    fetch_vec4s(x, lane, X_DTYPE, C(0), kept);
#ifndef C_double
    if (EARLY) {
      if (HAS_WEIGHT) fetch_raw(Row(p.w, uint64_t(0), uint64_t(1), p.n), lane, W_DTYPE, early_w);
      if (HAS_BIAS) fetch_raw(Row(p.b, uint64_t(0), uint64_t(1), p.n), lane, B_DTYPE, early_b);
    }
#endif
    if (IS_RMS) {
      V4 squares = V4(0);
      [[unroll]] for (int j = 0; j < ITEMS; ++j) squares += kept[j] * kept[j];
      t = Moments(C(p.n), C(0), group_sum(Pair(sum4(squares), C(0))).a);
    } else {
      t = group_moments(kept, lane);
    }
  } else {
    read_moments();
  }
#else
  read_moments();
#endif
  C mean = IS_RMS ? C(0) : t.mean;
#if GROUP == 2
  C rstd = inversesqrt(t.m2 / t.n + C(p.eps));
#else
  C rstd = C(1) / sqrt(t.m2 / t.n + C(p.eps));
#endif
#if GROUP
  if (lane == 0u) {
    if (!IS_RMS) store_stat(p.mean, row, mean);
    store_stat(p.rstd, row, rstd);
  }
  if (ITEMS > 0) {
#ifndef C_double
    if (EARLY) {
      [[unroll]] for (int j = 0; j < ITEMS; ++j) {
        kept[j] = (kept[j] - mean) * rstd;
        if (HAS_WEIGHT) kept[j] *= vec4_of(early_w, j, W_DTYPE);
        if (HAS_BIAS) kept[j] += vec4_of(early_b, j, B_DTYPE);
      }
    } else
#endif
    {
      [[unroll]] for (int j = 0; j < ITEMS; ++j) kept[j] = normal(kept[j], mean, rstd, row, vec4_at(j, lane));
    }
    put_vec4s(y, lane, Y_DTYPE, kept);
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) put(y, k, Y_DTYPE,
        normal(fetch(x, k, X_DTYPE, C(0)), mean, rstd, row, k));
  }
#else
  if (!IS_RMS) store_stat(p.mean, row, mean);
  store_stat(p.rstd, row, rstd);
  for (uint k = 0; k < p.n; k += 4u) put(y, k, Y_DTYPE, normal(fetch(x, k, X_DTYPE, C(0)), mean, rstd, row, k));
#endif
}
