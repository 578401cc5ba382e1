#pragma aule params ring
// The splits of flash_decode put together: O = sum_s 2^(m_s - m) O_s / sum_s 2^(m_s - m) l_s. One workgroup per query row.
#include "attention/attention.glsl"
#include "attention/sequences.glsl"

void main() {
  const uint group = linear_group();
  if (group >= p.groups) return;
  const int t = int(gl_LocalInvocationID.x), splits = p.splits, v_dim = p.v_dim, q_len = p.q_len;
  const int row = int(group) % q_len, bh = int(group) / q_len, b = bh / p.heads, h = bh % p.heads;
  if (RAGGED) sequence = sequence_of(b);
  if (row >= query_count()) return;  // beyond this sequence's own queries
  const int members = p.heads / p.kv_heads, rows = members * q_len, r = h % members * q_len + row;
  const int64_t first = int64_t(b * p.kv_heads + h / members) * splits * rows + r;  // of split 0; the next is `rows` on
  float top = -3.0e38, sum = 0.0;
  [[dont_unroll]] for (int s = 0; s < splits; ++s) top = max(top, F32Ref(p.stats + uint64_t(first + int64_t(s) * rows) * 8).v);
  [[dont_unroll]] for (int s = 0; s < splits; ++s) {
    const uint64_t at = p.stats + uint64_t(first + int64_t(s) * rows) * 8;
    sum += exp2(F32Ref(at).v - top) * F32Ref(at + 4).v;
  }
  const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
  const uint64_t out_row = query_rows(p.out_, p.out_stride, b, h) + uint64_t(int64_t(row) * p.out_stride[2] * ELEM_BYTES);
  [[dont_unroll]] for (int d = t; d < v_dim; d += LOCAL) {
    float x = 0.0;
    [[dont_unroll]] for (int s = 0; s < splits; ++s) {
      const int64_t at = first + int64_t(s) * rows;
      x += exp2(F32Ref(p.stats + uint64_t(at) * 8).v - top) * F32Ref(p.partial + (uint64_t(at) * uint64_t(v_dim) + uint64_t(d)) * 4).v;
    }
    store_float(out_row, uint64_t(d), DT, x * inverse);
  }
  if (t == 0) F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF : (top + log2(sum)) * 0.6931471805599453;
}
