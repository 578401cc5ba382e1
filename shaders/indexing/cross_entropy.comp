// Cross entropy of logits x[rows, n] against class indices, for GPUs: with t = target[row]
//   lse[row] = log sum_k exp(x[row, k]),   partial[row] = {lse - x[row, t], 1}, {0, 0} where t is ignored
// The probabilities are never written: the gradient comes from x and lse (cross_entropy_backward.comp).
//
// A workgroup has a row and reads it once, in aligned blocks (row_blocks.glsl), UNROLL of them in flight per invocation. The
// sum is taken about a running maximum, brought up to date once for every UNROLL blocks. A class out of range is reported
// and counts as ignored.
layout(constant_id = 0) const int DT = 0;
layout(constant_id = 1) const int TARGET_DT = 0;
layout(constant_id = 2) const int LOCAL = 256;
layout(local_size_x_id = 2) in;
#include "common/indexing.glsl"
#include "common/errors.glsl"
#include "indexing/row_blocks.glsl"

struct Params {
  uint64_t x, target, lse, partial, error;
  int64_t ignore_index;
  uint rows, n, tag;
};
#include "common/params.glsl"

const uint UNROLL = 4u;
const float LOG2_E = 1.44269504;
#define LOWEST uintBitsToFloat(0xff800000u)  // -inf
shared float tree_m[LOCAL], tree_s[LOCAL];

// What is subtracted: 0 for nothing but -inf, so that nothing becomes inf - inf.
float reference(float m) { return m == LOWEST ? 0.0 : m; }

void main() {
  const uint row = linear_group(), lane = gl_LocalInvocationID.x;
  if (row >= p.rows) return;  // the whole workgroup leaves
  const uint64_t first = uint64_t(row) * p.n, last = first + p.n, from = first / E;
  const uint count = uint((last + E - 1u) / E - from);  // blocks
  const uint skip = uint(first - from * E);             // elements of the last row in the first of them
  float m = LOWEST, s = 0.0;
  for (uint at = lane; at < count; at += LOCAL * UNROLL) {
    uvec4 w[UNROLL];
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
      if (at + u * LOCAL < count) w[u] = load_block(p.x, from + at + u * LOCAL);
    float x[UNROLL][MOST];
    float top = m;
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
      if (at + u * LOCAL >= count) continue;
      const uint k = (at + u * LOCAL) * E;  // counted from the first block's first element
      [[unroll]] for (uint i = 0u; i < MOST; ++i)
        if (i < E) x[u][i] = element(w[u], i);
      if (k < skip || k + E > skip + p.n) {
        [[unroll]] for (uint i = 0u; i < MOST; ++i)
          if (i < E && (k + i < skip || k + i >= skip + p.n)) x[u][i] = LOWEST;
      }
      [[unroll]] for (uint i = 0u; i < MOST; ++i)
        if (i < E) top = max(top, x[u][i]);
    }
    const float r = reference(top), scaled = r * LOG2_E;
    s *= exp2((m - r) * LOG2_E);
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
      if (at + u * LOCAL >= count) continue;
      [[unroll]] for (uint i = 0u; i < MOST; ++i)
        if (i < E) s += exp2(fma(x[u][i], LOG2_E, -scaled));
    }
    m = top;
  }
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
  if (lane != 0u) return;
  const float lse = m + log(s);
  const int64_t t = load_int64(p.target, uint64_t(row), TARGET_DT);
  float loss = 0.0, weight = 0.0;
  if (t != p.ignore_index) {
    if (t < int64_t(0) || t >= int64_t(p.n)) {
      report_error(p.error, AULE_ERR_CLASS_OUT_OF_RANGE, p.tag, t, int64_t(p.n));
    } else {
      loss = lse - load_float(p.x, first + uint64_t(t), DT);
      weight = 1.0;
    }
  }
  F32Ref(p.lse + uint64_t(row) * 4).v = lse;
  F32Ref(p.partial + uint64_t(row) * 8).v = loss;
  F32Ref(p.partial + uint64_t(row) * 8 + 4).v = weight;
}
