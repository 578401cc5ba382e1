#pragma aule axis SHUFFLE 0 1
#pragma aule feature subgroup_shuffle if SHUFFLE=1
#pragma aule params ring
// FlashAttention-2 backward (Dao 2023) in float32 arithmetic, dQ, and the full bias gradient if GRAD_BIAS:
//   P = exp(S - LSE);  dP = dropout(dO V^T);  dS = P * (dP - delta);  dQ = scale * dS K;  dBias = dS
// Workgroups and tiles are those of flash_attn_fwd_simt. Every element has one writer and one order of summation:
// deterministic, no atomics.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simt.md
#include "attention/parts/simt.glsl"

struct Weights {
  int first, row0, key0, end, bh, column, pass;
  uint64_t bias;
  RowFactor lse, lo, delta;
};

// Scores become dS, and P * dP is added to `sum`. `whole`: every row sees every key of the tile.
void score_gradients(inout ScoreTile s, ScoreTile dp, Weights w, bool whole, inout RowFactor sum) {
  const int q_len = query_count();
  [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
    const int key = w.key0 + tx() + LANES * j;
    [[unroll]] for (int i = 0; i < ROWS; ++i) {
      const int row = w.row0 + i, seen = key - row - mask_diagonal();
      const bool inside = key < w.end && row < q_len;
      float slope, x = capped(s.v[i * COLUMNS + j], p.scale, p.softcap, slope);
      if (BIAS_DTYPE >= 0 && inside && !(BLOCK_MASK && whole)) x += load_bias(w.bias + bias_bytes() *
          uint64_t(int64_t(bias_row_of(row)) * p.bias_stride[2] +
          int64_t(bias_column_of(key)) * p.bias_stride[3]), seen);
      const bool visible = whole || (key < w.end && seen >= -p.left && seen <= p.right && x > NEG_INF);
      const float prob = visible ? power(below_logsumexp(x, w.lse.v[i], w.lo.v[i])) : 0.0;
      float gp = dp.v[i * COLUMNS + j];
      if (DROPOUT) {
        gp = is_kept(w.first, ty() * ROWS + i, w.key0, tx() + LANES * j, false) ? gp * p.dropout_scale : 0.0;
      }
      if (DTYPE != AULE_DT_F32) sum.v[i] += prob * gp;
      const float ds = prob * (gp - w.delta.v[i]);
      if (GRAD_BIAS && w.pass == 1 && inside && w.column == 0) F32Ref(p.grad_bias +
          uint64_t((int64_t(w.bh) * q_len + row) * key_count() + key) * 4).v = ds;
      s.v[i * COLUMNS + j] = ds * slope;
    }
  }
}

void main() {
  int blocks = (p.q_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = blocks - 1 - int(group % uint(blocks));
  int column = int(group / uint(blocks)) % SPLITS * RESULT_COLUMNS;
  int bh = int(group / uint(blocks)) / SPLITS;
  int b = bh / p.heads, h = bh % p.heads, kv_h = h / (p.heads / p.kv_heads);
  int first = block * BM, row0 = first + ty() * ROWS;
  begin_sequence(b);
  int q_len = query_count();
  if (RAGGED && first >= q_len) return;
  int begin = keys_begin(first) & ~(DROPOUT ? 31 : 0), end = keys_end(min(first + BM, q_len) - 1);
  Rows q = Rows(query_rows(p.query, p.query_stride, b, h), p.query_stride[2] * ELEM_BYTES, 0, q_len, p.head_dim);
  Rows g = Rows(query_rows(p.grad_out, p.grad_out_stride, b, h), p.grad_out_stride[2] * ELEM_BYTES, 0, q_len, p.v_dim);
  Rows k = Rows(key_rows(p.key, p.key_stride, b, kv_h), p.key_stride[2] * ELEM_BYTES, 0, end, p.head_dim);
  Rows v = Rows(key_rows(p.value, p.value_stride, b, kv_h), p.value_stride[2] * ELEM_BYTES, 0, end, p.v_dim);
  Rows none = Rows(0, 0, 0, 0, 0);
  Weights w;
  w.first = first;
  w.row0 = row0;
  w.end = end;
  w.bh = bh;
  w.column = column;
  w.bias = 0;
  if (BIAS_DTYPE >= 0) w.bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] +
      int64_t(h) * p.bias_stride[1]);
  Dropout dropout;
  if (DROPOUT) dropout = dropout_begin();

  ResultTile dq;
  RowFactor sum;
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) dq.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    uint64_t stats = p.stats + uint64_t(stats_index(bh, min(row0 + i, q_len - 1))) * STATS_BYTES;
    w.lse.v[i] = F32Ref(stats).v * UNIT;
    w.delta.v[i] = F32Ref(stats + 4).v;
    w.lo.v[i] = TWO_PARTS ? F32Ref(stats + 8).v : 0.0;
    sum.v[i] = 0.0;
  }

  bool again = sums_delta(end - begin, BM);
  const int rows_end = min(first + BM, q_len) - 1, origin = begin;
  if (BLOCK_MASK) begin = tile_from(next_kept_key(w.bias, first, rows_end, begin, end), origin, end);
  fetch_scores(q, first, k, begin, 0);
  [[dont_unroll]] for (int pass = again ? 0 : 1; pass < 2; ++pass) {  // 0: delta; 1: dQ
    w.pass = pass;
    int following;
    [[dont_unroll]] for (int key0 = begin; key0 < end; key0 = following) {
      following = key0 + BN;
      if (BLOCK_MASK) following = tile_from(next_kept_key(w.bias, first, rows_end, following, end), origin, end);
      w.key0 = key0;
      ScoreTile s, dp;
      scores(s, q, first, k, key0, g, v);
      if (DROPOUT) draw_kept(dropout, bh, first, key0, false);
      scores(dp, g, first, v, key0, none, none);
      if (pass == 1) fetch_strip(k, key0, column);
      bool whole = key0 + BN <= end && seen_whole(first, first + BM - 1, key0, key0 + BN - 1);
      if (whole) score_gradients(s, dp, w, true, sum);
      else score_gradients(s, dp, w, false, sum);
      if (pass == 1) accumulate(dq, s, k, key0, column, SCORES, q, first, k, following);
      else fetch_scores(q, first, k, following < end ? following : begin, 0);
    }
    if (pass == 0) {
      over_rows(sum, true);
      [[unroll]] for (int i = 0; i < ROWS; ++i) {
        int64_t index = stats_index(bh, min(row0 + i, q_len - 1));
        w.delta.v[i] = delta_of_logsumexp(index) + sum.v[i];
        if (tx() == 0 && column == 0 && row0 + i < q_len)
          F32Ref(p.stats + uint64_t(index) * STATS_BYTES + 4).v = w.delta.v[i];
      }
    }
  }

  RowFactor factor;
  [[unroll]] for (int i = 0; i < ROWS; ++i) factor.v[i] = p.scale;
  store_result(dq, query_rows(p.grad_query, p.grad_query_stride, b, h), p.grad_query_stride[2], first, q_len, column,
      p.head_dim, factor);
}
