#pragma aule axis C float double
#pragma aule axis GROUP 0 1 2
#pragma aule skip C=double GROUP=2
#pragma aule feature float64 if C=double
#pragma aule feature subgroup_arithmetic if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// softmax      dx = y (g - sum g y)
// log_softmax  dx = g - exp(y) sum g      along one dimension of g[outer, n, inner], y its output
//
// Row layouts and GROUP as in softmax.comp. What was tried, and what it gave: docs/ladders/softmax.md
layout(constant_id = 0) const int G_DTYPE = 0;
layout(constant_id = 1) const int Y_DTYPE = 0;
layout(constant_id = 2) const int OUT_DTYPE = 0;
layout(constant_id = 3) const bool IS_LOG = false;
layout(constant_id = 4) const int VEC = 0;
layout(constant_id = 5) const int ITEMS = 1;
layout(constant_id = 6) const int LOCAL = 8;
layout(local_size_x_id = 6) in;
layout(constant_id = 7) const bool IS_FULL = false;
const int KEPT = ITEMS > 0 ? ITEMS : 4;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"

struct Params {
  uint64_t grad, y, out_;
  uint64_t rows;  // outer * inner
  uint n, inner;
};
#include "common/params.glsl"

C part(V4 g, V4 y) { return IS_LOG ? sum4(g) : sum4(g * y); }
V4 result(C s, V4 g, V4 y) { return IS_LOG ? g - exp(y) * s : y * (g - s); }

#if GROUP
#include "norm/rowwise_group.glsl"
#endif

void main() {
#if GROUP
  uint64_t row = uint64_t(linear_group());
  if (row >= p.rows) return;  // the whole workgroup leaves
  uint64_t start = row * p.n, hop = uint64_t(1);
  uint lane = gl_LocalInvocationID.x;
#else
  uint64_t row = linear_invocation();
  if (row >= p.rows) return;
  uint64_t start = row * p.n, hop = uint64_t(p.inner);
  if (p.inner != 1u) {
    uint64_t outer = row / p.inner;
    start = outer * p.n * p.inner + (row - outer * p.inner);
  }
#endif
  Row g = Row(p.grad, start, hop, p.n), y = Row(p.y, start, hop, p.n), o = Row(p.out_, start, hop, p.n);
  C s = C(0);
#if GROUP
  const uint end = p.n + skip_of(g);
  V4 kept_g[KEPT], kept_y[KEPT];
  if (ITEMS > 0) {
    fetch_vec4s(g, lane, G_DTYPE, C(0), kept_g);
    fetch_vec4s(y, lane, Y_DTYPE, C(0), kept_y);
    [[unroll]] for (int j = 0; j < ITEMS; ++j) s += part(kept_g[j], kept_y[j]);
  } else if (ANY_START) {
    for (uint first = 0u; first < end; first += GROUP_ELEMS) {
      fetch_vec4s(g, lane, G_DTYPE, first, C(0), kept_g);
      if (!IS_LOG) fetch_vec4s(y, lane, Y_DTYPE, first, C(0), kept_y);
      [[unroll]] for (int j = 0; j < KEPT; ++j) s += part(kept_g[j], kept_y[j]);
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u)
      s += part(fetch(g, k, G_DTYPE, C(0)), fetch(y, k, Y_DTYPE, C(0)));
  }
  s = group_sum(Pair(s, C(0))).a;
  if (ITEMS > 0) {
    [[unroll]] for (int j = 0; j < ITEMS; ++j) kept_g[j] = result(s, kept_g[j], kept_y[j]);
    put_vec4s(o, lane, OUT_DTYPE, kept_g);
  } else if (ANY_START) {
    // From the row's end backwards, because the elements that were read last are in the cache.
    for (uint first = (end - 1u) / GROUP_ELEMS * GROUP_ELEMS + GROUP_ELEMS; first > 0u; first -= GROUP_ELEMS) {
      fetch_vec4s(g, lane, G_DTYPE, first - GROUP_ELEMS, C(0), kept_g);
      fetch_vec4s(y, lane, Y_DTYPE, first - GROUP_ELEMS, C(0), kept_y);
      [[unroll]] for (int j = 0; j < KEPT; ++j) kept_g[j] = result(s, kept_g[j], kept_y[j]);
      put_vec4s(o, lane, OUT_DTYPE, first - GROUP_ELEMS, kept_g);
    }
  } else {
    for (uint k = lane * 4u; k < p.n; k += LOCAL * 4u)
      put(o, k, OUT_DTYPE, result(s, fetch(g, k, G_DTYPE, C(0)), fetch(y, k, Y_DTYPE, C(0))));
  }
#else
  for (uint k = 0; k < p.n; k += 4u) s += part(fetch(g, k, G_DTYPE, C(0)), fetch(y, k, Y_DTYPE, C(0)));
  for (uint k = 0; k < p.n; k += 4u)
    put(o, k, OUT_DTYPE, result(s, fetch(g, k, G_DTYPE, C(0)), fetch(y, k, Y_DTYPE, C(0))));
#endif
}
