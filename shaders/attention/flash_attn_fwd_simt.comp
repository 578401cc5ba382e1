#pragma aule axis SHUFFLE 0 1
#pragma aule feature subgroup_shuffle if SHUFFLE=1
#pragma aule params ring
// O = softmax(scale * Q K^T + bias) V by online softmax, FlashAttention-2 forward (Dao 2023), in float32 arithmetic.
//
//   workgroup (block of BM queries, split of the value columns, b, h)     tiles of BN keys pass through shared memory
//
// Heavy causal blocks come first. Only tiles with keys that some row does not see are masked. Deterministic.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simt.md
#include "attention/simt.glsl"

void main() {
  int blocks = (p.q_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = blocks - 1 - int(group % uint(blocks));
  int column = int(group / uint(blocks)) % SPLITS * COLUMNS;
  int bh = int(group / uint(blocks)) / SPLITS;
  int b = bh / p.heads, h = bh % p.heads, kv_h = h / (p.heads / p.kv_heads);
  int first = block * BM, row0 = first + ty() * R;
  begin_sequence(b);
  int q_len = query_count();
  if (RAGGED && first >= q_len) return;
  int diagonal = mask_diagonal(), left = p.left, right = p.right;
  float scale = p.scale, softcap = p.softcap;
  int begin = keys_begin(first) & ~(DROPOUT ? 31 : 0), end = keys_end(min(first + BM, q_len) - 1);
  Rows q = Rows(query_rows(p.query, p.query_stride, b, h), p.query_stride[2] * ELEM_BYTES, 0, q_len, p.head_dim);
  Rows k = Rows(key_rows(p.key, p.key_stride, b, kv_h), p.key_stride[2] * ELEM_BYTES, p.key_stride[0] * ELEM_BYTES, end,
      p.head_dim);
  Rows v = Rows(key_rows(p.value, p.value_stride, b, kv_h), p.value_stride[2] * ELEM_BYTES,
      p.value_stride[0] * ELEM_BYTES, end, p.v_dim);
  Rows none = Rows(0, 0, 0, 0, 0);
  uint64_t bias = 0;
  int64_t bias_q = 0, bias_k = 0;
  if (BIAS_DTYPE >= 0) {
    bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
    bias_q = p.bias_stride[2];
    bias_k = p.bias_stride[3];
  }
  Dropout dropout;
  if (DROPOUT) dropout = dropout_begin();

  ResultTile o;
  RowFactor m, l;
  [[unroll]] for (int i = 0; i < R * PER_LANE; ++i) o.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < R; ++i) {
    m.v[i] = NEG_INF;
    l.v[i] = 0.0;  // of this invocation's columns, summed over x at the end
  }

  fetch_scores(q, first, k, begin, 0);
  [[dont_unroll]] for (int key0 = begin; key0 < end; key0 += BN) {
    ScoreTile s;
    if (DROPOUT) draw_kept(dropout, bh, first, key0, false);
    scores(s, q, first, k, key0, none, none);
    fetch_strip(v, key0, column);
    bool whole = key0 + BN <= end && seen_whole(first, first + BM - 1, key0, key0 + BN - 1);
    [[unroll]] for (int i = 0; i < R * C; ++i) {
      float slope;
      s.v[i] = capped(s.v[i], scale, softcap, slope);
    }
    if (!whole) {
      [[unroll]] for (int j = 0; j < C; ++j) {
        int key = key0 + tx() + TX * j;
        [[unroll]] for (int i = 0; i < R; ++i) {
          int row = row0 + i, seen = key - row - diagonal;
          float x = s.v[i * C + j];
          if (BIAS_DTYPE >= 0 && key < end && row < q_len) x += load_bias(bias +
              bias_bytes() * uint64_t(int64_t(row) * bias_q + int64_t(key) * bias_k));
          s.v[i * C + j] = key < end && seen >= -left && seen <= right ? x : NEG_INF;
        }
      }
    }
    RowFactor top;
    [[unroll]] for (int i = 0; i < R; ++i) {
      top.v[i] = s.v[i * C];
      [[unroll]] for (int j = 1; j < C; ++j) top.v[i] = max(top.v[i], s.v[i * C + j]);
    }
    over_rows(top, false);
    [[unroll]] for (int i = 0; i < R; ++i) {
      float now = max(top.v[i], m.v[i]), ref = now == NEG_INF ? 0.0 : now, f = power(m.v[i] - ref);
      m.v[i] = now;
      l.v[i] *= f;
      [[unroll]] for (int j = 0; j < C; ++j) {
        float weight = power(s.v[i * C + j] - ref);
        l.v[i] += weight;
        s.v[i * C + j] = weight;
      }
      [[unroll]] for (int j = 0; j < PER_LANE; ++j) o.v[i * PER_LANE + j] *= f;
    }
    if (DROPOUT) {
      [[unroll]] for (int j = 0; j < C; ++j) {
        [[unroll]] for (int i = 0; i < R; ++i)
          s.v[i * C + j] = is_kept(first, ty() * R + i, key0, tx() + TX * j, false) ? s.v[i * C + j] * p.dropout_scale :
              0.0;
      }
    }
    accumulate(o, s, v, key0, column, SCORES, q, first, k, key0 + BN);
  }

  over_rows(l, true);
  RowFactor inverse;
  [[unroll]] for (int i = 0; i < R; ++i) {
    float sum = l.v[i];
    inverse.v[i] = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
    if (column == 0 && tx() == 0 && row0 + i < q_len)
      F32Ref(p.logsumexp + uint64_t(stats_index(bh, row0 + i)) * 4).v = sum == 0.0 ? NEG_INF : m.v[i] / UNIT + log(sum);
  }
  store_result(o, query_rows(p.out_, p.out_stride, b, h), p.out_stride[2], first, q_len, column, p.v_dim, inverse);
}
