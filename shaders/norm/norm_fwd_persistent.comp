#pragma aule axis GROUP 1 2
#pragma aule feature subgroup_arithmetic if GROUP=2
#pragma aule feature subgroup_shuffle if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// Layer norm of half types (formula: norm_fwd.comp) for GPUs. A workgroup takes every `groups`-th row. Weight and bias
// stay in registers for all its rows, and the next row is loaded before this one is summed.
// What was tried, and what it gave: docs/ladders/norm_fwd.md
#define C float
#define C_float
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int Y_DTYPE = 0;
layout(constant_id = 2) const int W_DTYPE = 0;
layout(constant_id = 3) const int B_DTYPE = 0;
layout(constant_id = 4) const bool HAS_WEIGHT = false;
layout(constant_id = 5) const bool HAS_BIAS = false;
layout(constant_id = 6) const int KEPT = 2;
layout(constant_id = 7) const int LOCAL = 8;
layout(constant_id = 8) const bool IS_FULL = false;
layout(local_size_x_id = 7) in;
const int VEC = 2;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t x, y, w, b, mean, rstd;
  uint rows, n, groups;
  float eps;
};
#include "common/params.glsl"
#include "norm/moments.glsl"
#include "norm/rowwise_group.glsl"
#include "norm/group_moments.glsl"

Row row_of(uint64_t base, uint row) { return Row(base, uint64_t(row) * p.n, uint64_t(1), p.n); }

void main() {
  const uint lane = gl_LocalInvocationID.x, group = linear_group();
  if (group >= p.groups) return;  // the whole workgroup leaves
  u64vec2 w[KEPT], b[KEPT], next[KEPT];
  fetch_raw(row_of(p.x, group), lane, X_DTYPE, next);
  if (HAS_WEIGHT) fetch_raw(row_of(p.w, 0u), lane, W_DTYPE, w);
  if (HAS_BIAS) fetch_raw(row_of(p.b, 0u), lane, B_DTYPE, b);
  for (uint row = group; row < p.rows; row += p.groups) {
    u64vec2 x[KEPT];
    [[unroll]] for (int j = 0; j < KEPT; ++j) x[j] = next[j];
    if (row + p.groups < p.rows) fetch_raw(row_of(p.x, row + p.groups), lane, X_DTYPE, next);
    vec4 v[KEPT];
    [[unroll]] for (int j = 0; j < KEPT; ++j) v[j] = vec4_of(x, j, X_DTYPE);  // past the end 0
    const Moments t = group_moments(v, lane);
    const float rstd = inversesqrt(t.m2 / float(p.n) + p.eps);
    if (lane == 0u) {
      F32Ref(p.mean + uint64_t(row) * 4).v = t.mean;
      F32Ref(p.rstd + uint64_t(row) * 4).v = rstd;
    }
    // x rstd - mean rstd: the rounding error in float32 is far below a half type's last digit.
    const float offset = -t.mean * rstd;
    [[unroll]] for (int j = 0; j < KEPT; ++j) {
      v[j] = fma(vec4_of(x, j, X_DTYPE), vec4(rstd), vec4(offset));
      if (HAS_WEIGHT) v[j] *= vec4_of(w, j, W_DTYPE);
      if (HAS_BIAS) v[j] += vec4_of(b, j, B_DTYPE);
    }
    put_vec4s(row_of(p.y, row), lane, Y_DTYPE, v);
  }
}
