#pragma aule params ring
// Combines the splits of flash_attn_splitkv_shared: O = sum_s 2^(m_s - m) O_s / sum_s 2^(m_s - m) l_s. Deterministic.
//
// One workgroup per query row. Its invocations share the splits, first for the statistics, then for the sums: LANES
// invocations have four columns each, LOCAL / LANES of them share the splits, FLYING loads at a time.
// What was tried, and what it gave: docs/ladders/flash_attn_splitkv_shared.md
#include "attention/parts/attention.glsl"
#include "attention/parts/sequences.glsl"

// Invocations of a row, four columns each: a power of two, at most LOCAL.
layout(constant_id = FAMILY_CONSTANTS) const int LANES = 32;
layout(constant_id = FAMILY_CONSTANTS + 1) const int PITCH = 128;  // of a row of `partial`
const int STREAMS = LOCAL / LANES;
const int FLYING = 8;

shared float factor[512];  // 2^(m_s - m). Plans have at most 512 splits.
shared float reduced[LOCAL];
shared vec4 sums[LOCAL];

void main() {
  const uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  const int t = int(gl_LocalInvocationID.x), splits = p.splits, v_dim = p.v_dim, q_len = p.q_len;
  const int row = int(group) % q_len, bh = int(group) / q_len, b = bh / p.heads, h = bh % p.heads;
  if (RAGGED) sequence = sequence_of(b, p.q_len);
  const int members = p.heads / p.kv_heads, rows = members * q_len, r = h % members * q_len + row;
  const int64_t first = int64_t(b * p.kv_heads + h / members) * splits * rows + r;  // of split 0; the next is `rows` on
  const uint64_t partial = p.partial;

  float top = LOWEST;
  [[dont_unroll]] for (int s = t; s < splits; s += LOCAL) {
    factor[s] = F32Ref(p.stats + uint64_t(first + int64_t(s) * rows) * 8).v;
    top = max(top, factor[s]);
  }
  reduced[t] = top;
  [[unroll]] for (int step = LOCAL / 2; step > 0; step /= 2) {
    barrier();  // the maxima of twice as many are written
    if (t < step) reduced[t] = max(reduced[t], reduced[t + step]);
  }
  barrier();  // the maximum is written
  top = reduced[0];
  barrier();  // and read
  float sum = 0.0;
  [[dont_unroll]] for (int s = t; s < splits; s += LOCAL) {
    const float f = exp2(factor[s] - top);
    factor[s] = f;
    sum += f * F32Ref(p.stats + uint64_t(first + int64_t(s) * rows) * 8 + 4).v;
  }
  reduced[t] = sum;
  [[unroll]] for (int step = LOCAL / 2; step > 0; step /= 2) {
    barrier();  // the sums of twice as many are written; before the first, the factors too
    if (t < step) reduced[t] += reduced[t + step];
  }
  barrier();  // the sum is written
  sum = reduced[0];
  const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
  const uint64_t out_row = query_rows(p.out_, p.out_stride, b, h) +
      uint64_t(int64_t(row) * p.out_stride[2] * ELEM_BYTES);
  const bool stored = row < query_count();  // other rows are beyond this sequence's own

  const int lane = t % LANES, stream = t / LANES;
  [[dont_unroll]] for (int d0 = 0; d0 < v_dim; d0 += LANES * 4) {
    const int column = d0 + lane * 4;
    vec4 x = vec4(0.0);
    [[dont_unroll]] for (int s0 = stream; s0 < splits; s0 += STREAMS * FLYING) {
      vec4 y[FLYING];
      [[unroll]] for (int i = 0; i < FLYING; ++i) {
        const int s = min(s0 + i * STREAMS, splits - 1);
        y[i] = F32x4Ref(partial + uint64_t((first + int64_t(s) * rows) * PITCH + int64_t(min(column, PITCH - 4))) *
            4).v;
      }
      [[unroll]] for (int i = 0; i < FLYING; ++i)
        if (s0 + i * STREAMS < splits) x += factor[s0 + i * STREAMS] * y[i];
    }
    sums[t] = x;
    [[unroll]] for (int step = STREAMS / 2; step > 0; step /= 2) {
      barrier();  // the sums of twice as many streams are written
      if (stream < step) sums[t] += sums[t + step * LANES];
    }
    if (stream == 0 && stored)
      [[unroll]] for (int i = 0; i < 4; ++i)
        if (column + i < v_dim) store_float(out_row, uint64_t(column + i), DTYPE, sums[t][i] * inverse);
    barrier();  // the sums have been read
  }
  if (t == 0 && stored) F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF :
      (top + log2(sum)) * 0.6931471805599453;
}
