#pragma aule axis C float double
#pragma aule axis GROUP 0 1 2
#pragma aule skip C=double GROUP=2
#pragma aule feature float64 if C=double
#pragma aule feature subgroup_arithmetic if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// Gradient of norm_fwd.comp's input, with h = (x - mean) rstd and u = g w:
//   dx = rstd (u - mean(u) - h mean(u h))      RMS norm: without mean(u), h = x rstd
// Layouts, PER_CHANNEL and GROUP are those of norm_fwd.comp. norm_bwd_params.comp computes the weights' gradients.
layout(constant_id = 0) const int G_DTYPE = 0;
layout(constant_id = 1) const int X_DTYPE = 0;
layout(constant_id = 2) const int OUT_DTYPE = 0;
layout(constant_id = 3) const int W_DTYPE = 0;
layout(constant_id = 4) const bool IS_RMS = false;
layout(constant_id = 5) const bool PER_CHANNEL = false;
layout(constant_id = 6) const bool HAS_WEIGHT = false;
layout(constant_id = 7) const int VEC = 0;
layout(constant_id = 8) const int ITEMS = 1;
layout(constant_id = 9) const int LOCAL = 8;
layout(local_size_x_id = 9) in;
const int KEPT = ITEMS > 0 ? ITEMS : 1;
const bool IS_FULL = false;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t grad, x, w, mean, rstd, out_;  // mean: 0 for IS_RMS
  uint64_t rows;
  uint n, hw, groups, channels;
};
#include "common/params.glsl"
#include "norm/norm_common.glsl"

#if GROUP
#include "norm/rowwise_group.glsl"
#endif

V4 upstream(Row g, uint64_t row, uint k) {
  V4 u = fetch(g, k, G_DTYPE, C(0));
  if (HAS_WEIGHT) u *= affine(p.w, W_DTYPE, row, k);
  return u;
}

void main() {
#if GROUP
  uint64_t row = uint64_t(linear_group());
#else
  uint64_t row = linear_invocation();
#endif
  if (row >= p.rows) return;  // GROUP 1: the whole workgroup leaves
  uint64_t start = row * p.n;
  Row g = Row(p.grad, start, uint64_t(1), p.n), x = Row(p.x, start, uint64_t(1), p.n),
      o = Row(p.out_, start, uint64_t(1), p.n);
  C mean = IS_RMS ? C(0) : load_stat(p.mean, row), rstd = load_stat(p.rstd, row);
  V4 sum_u = V4(0), sum_h = V4(0);  // sums of u and of u h. Past the row's end u is 0.
#if GROUP
  uint lane = gl_LocalInvocationID.x;
  V4 kept_u[KEPT], kept_h[KEPT];
  if (ITEMS > 0) {
    fetch_vec4s(g, lane, G_DTYPE, C(0), kept_u);
    fetch_vec4s(x, lane, X_DTYPE, C(0), kept_h);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) {
      if (HAS_WEIGHT) kept_u[j] *= affine(p.w, W_DTYPE, row, vec4_at(j, lane));
      kept_h[j] = (kept_h[j] - mean) * rstd;
    }
    [[unroll]] for (int j = 0; j < ITEMS; ++j) {
      sum_u += kept_u[j];
      sum_h += kept_u[j] * kept_h[j];
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) {
      V4 u = upstream(g, row, k);
      sum_u += u;
      sum_h += u * ((fetch(x, k, X_DTYPE, C(0)) - mean) * rstd);
    }
  }
  const Pair t = group_sum(Pair(sum4(sum_u), sum4(sum_h)));
  C mu = IS_RMS ? C(0) : t.a / C(p.n), mh = t.b / C(p.n);
  if (ITEMS > 0) {
    [[unroll]] for (int j = 0; j < ITEMS; ++j) kept_u[j] = rstd * (kept_u[j] - mu - kept_h[j] * mh);
    put_vec4s(o, lane, OUT_DTYPE, kept_u);
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) {
      V4 h = (fetch(x, k, X_DTYPE, C(0)) - mean) * rstd;
      put(o, k, OUT_DTYPE, rstd * (upstream(g, row, k) - mu - h * mh));
    }
  }
#else
  for (uint k = 0; k < p.n; k += 4u) {
    V4 u = upstream(g, row, k);
    sum_u += u;
    sum_h += u * ((fetch(x, k, X_DTYPE, C(0)) - mean) * rstd);
  }
  C mu = IS_RMS ? C(0) : sum4(sum_u) / C(p.n), mh = sum4(sum_h) / C(p.n);
  for (uint k = 0; k < p.n; k += 4u) {
    V4 h = (fetch(x, k, X_DTYPE, C(0)) - mean) * rstd;
    put(o, k, OUT_DTYPE, rstd * (upstream(g, row, k) - mu - h * mh));
  }
#endif
}
