#pragma aule axis GROUP 1 2
#pragma aule feature subgroup_arithmetic if GROUP=2
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// Cross entropy of logits x[rows, n] against class indices, for GPUs: with t = target[row]
//   lse[row] = log sum_k exp(x[row, k])
//   partial[group] = sum over its rows of {lse - x[row, t], 1}, or {0, 0} if t is ignored
// No probabilities are written: the gradient comes from x and lse (cross_entropy_backward.comp). Deterministic.
//
// A workgroup takes every `groups`-th row and reads it once, in aligned blocks of 16 bytes (vec16b.glsl). An invocation
// works on UNROLL blocks while the next UNROLL, of the next row too, are loaded. The row's first and last elements are
// in blocks shared with neighbours, so they are loaded one by one. The sum is about a running maximum, updated every
// UNROLL blocks. A class out of range is reported and counts as ignored.
// What was tried, and what it gave: docs/ladders/cross_entropy.md
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int TARGET_DTYPE = 0;
layout(constant_id = 2) const int LOCAL = 256;
layout(local_size_x_id = 2) in;
#include "common/indexing.glsl"
#include "common/errors.glsl"
#include "common/vec16b.glsl"

struct Params {
  uint64_t x, target, lse, partial, error;
  int64_t ignore_index;
  uint rows, n, groups, tag;
};
#include "common/params.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PairRef { vec2 v; };
const int UNROLL = 4;
const float LOG2_E = 1.44269504;
#define LOWEST uintBitsToFloat(0xff800000u)  // -inf
#if GROUP == 2
// Two sets, used in turn: a subgroup that is ahead writes one while others still read the other. The host asks for
// subgroups of 4 or more.
shared float part_m[2][LOCAL / 4 + 1], part_s[2][LOCAL / 4 + 1];
uint turn = 0u;
#else
shared float tree_m[LOCAL], tree_s[LOCAL];
#endif

// The value that is subtracted: the maximum, or 0 if all elements are -inf, which avoids inf - inf.
float reference(float m) { return m == LOWEST ? 0.0 : m; }

uvec4 lowest_vec16b() {
  return uvec4(DTYPE == AULE_DT_F32 ? 0xff800000u : DTYPE == AULE_DT_F16 ? 0xfc00fc00u : 0xff80ff80u);
}

float highest(uvec4 w) {
  float e[MAX_E];
  [[unroll]] for (uint i = 0u; i < MAX_E; ++i)
    if (i < E) e[i] = element(w, i);
  const float low = max(max(e[0], e[1]), max(e[2], e[3]));
  return E == 4u ? low : max(low, max(max(e[E - 4u], e[E - 3u]), max(e[E - 2u], e[E - 1u])));
}
float powers(uvec4 w, float scaled) {
  float even = 0.0, odd = 0.0;
  [[unroll]] for (uint i = 0u; i < MAX_E; i += 2u) {
    if (i >= E) continue;
    even += exp2(fma(element(w, i), LOG2_E, -scaled));
    odd += exp2(fma(element(w, i + 1u), LOG2_E, -scaled));
  }
  return even + odd;
}

// Adds an element to the sum about m.
void take(inout float m, inout float s, float x) {
  const float top = max(m, x), r = reference(top);
  s = s * exp2((m - r) * LOG2_E) + exp2((x - r) * LOG2_E);
  m = top;
}
void take_vecs(inout float m, inout float s, uvec4 w[UNROLL]) {
  float top = m;
  [[unroll]] for (int u = 0; u < UNROLL; ++u) top = max(top, highest(w[u]));
  const float r = reference(top), scaled = r * LOG2_E;
  s *= exp2((m - r) * LOG2_E);
  [[unroll]] for (int u = 0; u < UNROLL; ++u) s += powers(w[u], scaled);
  m = top;
}

void load_vecs(uint64_t base, uint at, uint count, out uvec4 w[UNROLL]) {
  const uint64_t address = base + uint64_t(at) * 16;
  [[unroll]] for (int u = 0; u < UNROLL; ++u) {
    w[u] = lowest_vec16b();
    if (at + u * LOCAL < count) w[u] = load_vec16b(address, uint64_t(u * LOCAL));
  }
}

// A row's blocks: `count` inside it from `base`, `head` elements before them and `tail` after.
struct Line {
  uint64_t base;
  uint count, head, tail;
};
Line line(uint row) {
  const uint64_t first = uint64_t(row) * p.n, last = first + p.n, from = (first + E - 1u) / E;
  return Line(p.x + from * 16, uint(last / E - from), uint(from * E - first), uint(last % E));
}

void main() {
  const uint group = linear_group(), lane = gl_LocalInvocationID.x;
  if (group >= p.groups) return;  // the whole workgroup leaves
  float losses = 0.0, weights = 0.0;
  Line here = line(group);
  uvec4 w[UNROLL], next[UNROLL];
  load_vecs(here.base, lane, here.count, w);
  for (uint row = group;; row += p.groups) {  // groups is at most rows
    // The target's logit is loaded first, so that its latency overlaps with the row's. If t is no class, element 0 is
    // loaded, because a driver may execute the load despite a branch (readable() in common/params.glsl).
    const int64_t t = load_int64(p.target, uint64_t(row), TARGET_DTYPE);
    const bool within = t >= int64_t(0) && t < int64_t(p.n);
    const uint64_t first = uint64_t(row) * p.n;
    float chosen = 0.0;
    if (lane == 0u) chosen = load_float(p.x, first + (within ? uint64_t(t) : uint64_t(0)), DTYPE);
    float m = LOWEST, s = 0.0;
    if (lane < here.head) take(m, s, load_float(p.x, first + lane, DTYPE));
    if (lane < here.tail) take(m, s, load_float(p.x, first + p.n - here.tail + lane, DTYPE));
    const bool more = row + p.groups < p.rows;
    const Line after = line(more ? row + p.groups : row);
    for (uint at = 0u;;) {
      at += LOCAL * UNROLL;
      const bool last = at >= here.count;
      load_vecs(last ? after.base : here.base, (last ? 0u : at) + lane, last ? (more ? after.count : 0u) : here.count,
          next);
      take_vecs(m, s, w);
      [[unroll]] for (int u = 0; u < UNROLL; ++u) w[u] = next[u];
      if (last) break;
    }
    here = after;
#if GROUP == 2
    const float own = m;
    m = subgroupMax(m);
    s = subgroupAdd(s * exp2((own - reference(m)) * LOG2_E));
    if (gl_NumSubgroups > 1u) {
      turn ^= 1u;
      if (subgroupElect()) {
        part_m[turn][gl_SubgroupID] = m;
        part_s[turn][gl_SubgroupID] = s;
      }
      barrier();  // all parts written
      m = LOWEST;
      for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) m = max(m, part_m[turn][i]);
      m = subgroupMax(m);
      s = 0.0;
      for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
        s += part_s[turn][i] * exp2((part_m[turn][i] - reference(m)) * LOG2_E);
      s = subgroupAdd(s);
    }
#else
    barrier();  // the last row's tree has been read
    tree_m[lane] = m;
    tree_s[lane] = s;
    for (uint h = LOCAL / 2u; h > 0u; h /= 2u) {
      barrier();  // the upper half is written before the lower half reads it
      if (lane < h) {
        const float other = tree_m[lane + h], top = max(m, other), r = reference(top);
        s = s * exp(m - r) + tree_s[lane + h] * exp(other - r);
        m = top;
        tree_m[lane] = m;
        tree_s[lane] = s;
      }
    }
#endif
    if (lane == 0u) {
      const float lse = m + log(s);
      F32Ref(p.lse + uint64_t(row) * 4).v = lse;
      if (t != p.ignore_index) {
        if (within) {
          losses += lse - chosen;
          weights += 1.0;
        } else {
          report_error(p.error, AULE_ERR_CLASS_OUT_OF_RANGE, p.tag, t, int64_t(p.n));
        }
      }
    }
    if (!more) break;
  }
  if (lane != 0u) return;
  PairRef(p.partial + uint64_t(group) * 8).v = vec2(losses, weights);
}
