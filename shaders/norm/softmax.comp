#pragma aule axis C float double
#pragma aule axis GROUP 0 1 2
#pragma aule skip C=double GROUP=2
#pragma aule feature float64 if C=double
#pragma aule feature subgroup_arithmetic if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// softmax      y = exp(x - m) / s,  m = max x, s = sum exp(x - m), along one dimension of x[outer, n, inner]
// log_softmax  y = x - m - log s
//
// m and s come from one pass, which rescales the sum when the maximum grows. The second pass writes.
// GROUP 0: one invocation per row, neighbours along `inner`. Coalesced if inner > 1; the fastest form on lavapipe.
// GROUP 1, 2 (inner 1): one workgroup per row (rowwise_group.glsl). A row of up to 4 * ITEMS * LOCAL elements stays in
// registers and is read once. Longer rows are read twice, with VEC 3 in parts of 8 vec4 per invocation.
// What was tried, and what it gave: docs/ladders/softmax.md
layout(constant_id = 0) const int IN_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const bool IS_LOG = false;
layout(constant_id = 3) const bool IS_SAFE = false;   // rows of -inf only: 0 instead of NaN
layout(constant_id = 4) const int VEC = 0;    // see rowwise_group.glsl
layout(constant_id = 5) const int ITEMS = 1;  // groups of four per invocation kept in registers; 0: row too long
layout(constant_id = 6) const int LOCAL = 8;
layout(local_size_x_id = 6) in;
layout(constant_id = 7) const bool IS_FULL = false;
const int KEPT = ITEMS > 0 ? ITEMS : 8;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t in_, out_;
  uint64_t rows;  // outer * inner
  uint n, inner;
};
#include "common/params.glsl"

#ifdef C_double
#define LOWEST packDouble2x32(uvec2(0u, 0xfff00000u))
#else
#define LOWEST (-AULE_INF)
#endif
struct Sum { C m, s; };

// The value that is subtracted: the maximum, or 0 in a row of -inf only, which avoids inf - inf.
C reference(C m) { return m == LOWEST ? C(0) : m; }
Sum combine(Sum a, Sum b) {
  C m = max(a.m, b.m), r = reference(m);
  return Sum(m, a.s * exp(a.m - r) + b.s * exp(b.m - r));
}
void take(inout Sum t, V4 x) {
  C m = max(t.m, max4(x)), r = reference(m);
  t = Sum(m, t.s * exp(t.m - r) + sum4(exp(x - r)));
}
void take(inout Sum t, V4 x, V4 y) {
  C m = max(t.m, max(max4(x), max4(y))), r = reference(m);
  t = Sum(m, t.s * exp(t.m - r) + (sum4(exp(x - r)) + sum4(exp(y - r))));
}
// The sum as result() takes it: the reference, and log s or 1 / s. In a row of -inf only 1 / s is infinite, 0 if safe.
Sum last(Sum t) {
  if (IS_LOG) return Sum(reference(t.m), log(t.s));
  return Sum(reference(t.m), IS_SAFE && t.m == LOWEST ? C(0) : C(1) / t.s);
}
V4 result(Sum t, V4 x) { return IS_LOG ? x - t.m - t.s : exp(x - t.m) * t.s; }

#if GROUP
#include "norm/rowwise_group.glsl"
#endif

void main() {
#if GROUP
  uint64_t row = uint64_t(linear_group());
  if (row >= p.rows) return;  // the whole workgroup leaves
  Row x = Row(p.in_, row * p.n, uint64_t(1), p.n), y = Row(p.out_, row * p.n, uint64_t(1), p.n);
  const uint lane = gl_LocalInvocationID.x, end = p.n + skip_of(x);
  Sum t = Sum(LOWEST, C(0));
  V4 kept[KEPT];
  if (ITEMS > 0) {
    fetch_vec4s(x, lane, IN_DTYPE, LOWEST, kept);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) t.m = max(t.m, max4(kept[j]));
    t.m = group_max(t.m);
    const C r = reference(t.m);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) t.s += sum4(exp(kept[j] - r));
  } else if (ANY_START) {
    for (uint first = 0u; first < end; first += GROUP_ELEMS) {
      fetch_vec4s(x, lane, IN_DTYPE, first, LOWEST, kept);
      C m = t.m;
      [[unroll]] for (int j = 0; j < KEPT; ++j) m = max(m, max4(kept[j]));
      const C r = reference(m);
      V4 sum = V4(0);
      [[unroll]] for (int j = 0; j < KEPT; ++j) sum += exp(kept[j] - r);
      t = Sum(m, t.s * exp(t.m - r) + sum4(sum));
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) take(t, fetch(x, k, IN_DTYPE, LOWEST));
  }
  if (ITEMS == 0) {
    const C m = group_max(t.m);
    t = Sum(m, t.s * exp(t.m - reference(m)));
  }
  t.s = group_sum(Pair(t.s, C(0))).a;
  t = last(t);
  if (ITEMS > 0) {
    [[unroll]] for (int j = 0; j < ITEMS; ++j) kept[j] = result(t, kept[j]);
    put_vec4s(y, lane, OUT_DTYPE, kept);
  } else if (ANY_START) {
    // From the row's end backwards, because the elements that were read last are in the cache.
    for (uint first = (end - 1u) / GROUP_ELEMS * GROUP_ELEMS + GROUP_ELEMS; first > 0u; first -= GROUP_ELEMS) {
      fetch_vec4s(x, lane, IN_DTYPE, first - GROUP_ELEMS, LOWEST, kept);
      [[unroll]] for (int j = 0; j < KEPT; ++j) kept[j] = result(t, kept[j]);
      put_vec4s(y, lane, OUT_DTYPE, first - GROUP_ELEMS, kept);
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u) put(y, k, OUT_DTYPE, result(t, fetch(x, k, IN_DTYPE, LOWEST)));
  }
#else
  uint64_t row = linear_invocation();
  if (row >= p.rows) return;
  uint64_t start = row * p.n;
  if (p.inner != 1u) {
    uint64_t outer = row / p.inner;
    start = outer * p.n * p.inner + (row - outer * p.inner);
  }
  Row x = Row(p.in_, start, uint64_t(p.inner), p.n), y = Row(p.out_, start, uint64_t(p.inner), p.n);
  Sum t = Sum(LOWEST, C(0));
  for (uint k = 0; k < p.n; k += 8u) take(t, fetch(x, k, IN_DTYPE, LOWEST), fetch(x, k + 4u, IN_DTYPE, LOWEST));
  t = last(t);
  for (uint k = 0; k < p.n; k += 8u) {
    V4 a = fetch(x, k, IN_DTYPE, LOWEST), b = fetch(x, k + 4u, IN_DTYPE, LOWEST);
    put(y, k, OUT_DTYPE, result(t, a));
    put(y, k + 4u, OUT_DTYPE, result(t, b));
  }
#endif
}
