#pragma aule axis GROUP 1 2
#pragma aule feature subgroup_arithmetic if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// Gradients of layer norm and RMS norm for GPUs: rows, weight and bias in one pass. With h = (x - mean) rstd, u = g w:
//   dx = rstd (u - mean(u) - h mean(u h)),   dw = sum of g h over rows,   db = sum of g
//   RMS norm: h = x rstd, no mean(u)
// A workgroup takes every `groups`-th row and keeps it in registers as stored, so half types take half the registers.
// Its sums for dw and db stay in registers until its last row. norm_params_sum.comp adds up the workgroups' sums.
// LOADS_AHEAD (half types): the next row is loaded before this one is reduced. Deterministic.
// What was tried, and what it gave: docs/ladders/norm_bwd_persistent.md
#define C float
#define C_float
layout(constant_id = 0) const int G_DTYPE = 0;
layout(constant_id = 1) const int X_DTYPE = 0;
layout(constant_id = 2) const int OUT_DTYPE = 0;
layout(constant_id = 3) const int W_DTYPE = 0;
layout(constant_id = 4) const bool IS_RMS = false;
layout(constant_id = 5) const bool HAS_WEIGHT = false;
layout(constant_id = 6) const bool WANTS_DX = true;
layout(constant_id = 7) const bool WANTS_DW = true;
layout(constant_id = 8) const bool WANTS_DB = true;
layout(constant_id = 9) const int VEC = 1;
layout(constant_id = 10) const int KEPT = 1;
layout(constant_id = 11) const int LOCAL = 8;
layout(constant_id = 12) const bool IS_FULL = false;
layout(constant_id = 13) const bool LOADS_AHEAD = false;
layout(local_size_x_id = 11) in;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"
#include "norm/rowwise_group.glsl"

struct Params {
  uint64_t grad, x, w, mean, rstd, out_, dw, db;  // mean: 0 for IS_RMS; dw, db: [groups, n] float32
  uint rows, n, groups;
};
#include "common/params.glsl"

const int RAW_G = VEC != 0 ? G_DTYPE : AULE_DT_F32, RAW_X = VEC != 0 ? X_DTYPE : AULE_DT_F32;
const int RAW_W = VEC != 0 ? W_DTYPE : AULE_DT_F32;

Row row_of(uint64_t base, uint row) { return Row(base, uint64_t(row) * p.n, uint64_t(1), p.n); }

// Loads a row as stored, or as floats if VEC is 0.
void fetch_row(uint64_t base, uint row, uint lane, int dt, inout u64vec2 raw[KEPT]) {
  const Row r = row_of(base, row);
  if (VEC != 0) {
    fetch_raw(r, lane, dt, raw);
    return;
  }
  [[unroll]] for (int j = 0; j < KEPT; ++j) {
    const uvec4 u = floatBitsToUint(fetch(r, vec4_at(j, lane), dt, 0.0));
    raw[j] = u64vec2(packUint2x32(u.xy), packUint2x32(u.zw));
  }
}
float mean_of(uint row) { return IS_RMS ? 0.0 : F32Ref(p.mean + uint64_t(row) * 4).v; }
float rstd_of(uint row) { return F32Ref(p.rstd + uint64_t(row) * 4).v; }

void main() {
  const uint lane = gl_LocalInvocationID.x, group = linear_group();
  if (group >= p.groups) return;  // the whole workgroup leaves
  u64vec2 w[KEPT], next_g[KEPT], next_x[KEPT];
  vec4 dw[KEPT], db[KEPT];
  float next_mean = 0.0, next_rstd = 0.0;
  if (HAS_WEIGHT) fetch_row(p.w, 0u, lane, W_DTYPE, w);
  [[unroll]] for (int j = 0; j < KEPT; ++j) dw[j] = db[j] = vec4(0);
  if (LOADS_AHEAD) {
    fetch_row(p.grad, group, lane, G_DTYPE, next_g);
    fetch_row(p.x, group, lane, X_DTYPE, next_x);
    next_mean = mean_of(group);
    next_rstd = rstd_of(group);
  }
  for (uint row = group; row < p.rows; row += p.groups) {
    u64vec2 raw_g[KEPT], raw_x[KEPT];
    float mean, rstd;
    if (LOADS_AHEAD) {
      [[unroll]] for (int j = 0; j < KEPT; ++j) {
        raw_g[j] = next_g[j];
        raw_x[j] = next_x[j];
      }
      mean = next_mean;
      rstd = next_rstd;
      const uint next = row + p.groups;
      if (next < p.rows) {
        fetch_row(p.grad, next, lane, G_DTYPE, next_g);
        fetch_row(p.x, next, lane, X_DTYPE, next_x);
        next_mean = mean_of(next);
        next_rstd = rstd_of(next);
      }
    } else {
      fetch_row(p.grad, row, lane, G_DTYPE, raw_g);
      fetch_row(p.x, row, lane, X_DTYPE, raw_x);
      mean = mean_of(row);
      rstd = rstd_of(row);
    }
    // Past the row's end g is 0, so those elements add nothing.
    vec4 sum_u = vec4(0), sum_h = vec4(0);
    [[unroll]] for (int j = 0; j < KEPT; ++j) {
      const vec4 g = vec4_of(raw_g, j, RAW_G), gh = g * ((vec4_of(raw_x, j, RAW_X) - mean) * rstd);
      if (WANTS_DW) dw[j] += gh;
      if (WANTS_DB) db[j] += g;
      if (!IS_RMS) sum_u += HAS_WEIGHT ? g * vec4_of(w, j, RAW_W) : g;
      sum_h += HAS_WEIGHT ? gh * vec4_of(w, j, RAW_W) : gh;
    }
    if (!WANTS_DX) continue;
    const Pair t = group_sum(Pair(sum4(sum_u), sum4(sum_h)));
    const float mu = IS_RMS ? 0.0 : t.a / float(p.n), mh = t.b / float(p.n);
    vec4 dx[KEPT];
    [[unroll]] for (int j = 0; j < KEPT; ++j) {
      vec4 u = vec4_of(raw_g, j, RAW_G);
      if (HAS_WEIGHT) u *= vec4_of(w, j, RAW_W);
      dx[j] = rstd * (u - mu - (vec4_of(raw_x, j, RAW_X) - mean) * rstd * mh);
    }
    put_vec4s(row_of(p.out_, row), lane, OUT_DTYPE, dx);
  }
  if (WANTS_DW) put_vec4s(row_of(p.dw, group), lane, AULE_DT_F32, dw);
  if (WANTS_DB) put_vec4s(row_of(p.db, group), lane, AULE_DT_F32, db);
}
