#pragma aule axis SHUFFLE 0 1
#pragma aule feature subgroup_shuffle if SHUFFLE=1
#pragma aule params ring
// FlashAttention-2 backward (Dao 2023) in float32 arithmetic, dK and dV:
//   dV = dropout(P)^T dO;  dK = scale * dS^T Q;  P and dS as in flash_attn_bwd_dq_simt
//
//   workgroup (block of BM keys, split of the columns of both, b, key head)     queries pass in tiles of BN
//
// Scores are computed transposed, keys as rows, so dK and dV stay with their invocation. The queries of every head of
// the key head pass in turn. Every element has one writer and one order of summation: deterministic, no atomics.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simt.md
#include "attention/parts/simt.glsl"

struct Weights {
  int key0, query0, end, bh;
  uint64_t bias;
  float lse[COLUMNS], lo[COLUMNS], delta[COLUMNS];
  KeptTile kept;
};

// Transposed scores become dS, and dP becomes dropout(P).
void score_gradients(inout ScoreTile s, inout ScoreTile dp, Weights w, bool whole) {
  [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
    const int row = w.query0 + tx() + LANES * j;
    [[unroll]] for (int i = 0; i < ROWS; ++i) {
      const int key = w.key0 + i, seen = key - row - mask_diagonal();
      const bool inside = key < key_count() && row < w.end;
      float slope, x = capped(s.v[i * COLUMNS + j], p.scale, p.softcap, slope);
      if (BIAS_DTYPE >= 0 && inside && !(BLOCK_MASK && whole)) x += load_bias(w.bias + bias_bytes() *
          uint64_t(int64_t(bias_row_of(row)) * p.bias_stride[2] +
          int64_t(bias_column_of(key)) * p.bias_stride[3]), seen);
      const bool visible = whole || (row < w.end && seen >= -p.left && seen <= p.right && x > NEG_INF);
      float prob = visible ? power(below_logsumexp(x, w.lse[j], w.lo[j])) : 0.0, gp = dp.v[i * COLUMNS + j],
            kept = prob;
      if (DROPOUT) {
        const bool keep = kept_at(w.kept, i, j);
        gp = keep ? gp * p.dropout_scale : 0.0;
        kept = keep ? prob * p.dropout_scale : 0.0;
      }
      dp.v[i * COLUMNS + j] = kept;
      s.v[i * COLUMNS + j] = prob * (gp - w.delta[j]) * slope;
    }
  }
}

Rows head_rows(uint64_t base, int64_t stride[3], int b, int h, int end, int dim) {
  return Rows(query_rows(base, stride, b, h), stride[2] * ELEM_BYTES, 0, end, dim);
}

void main() {
  int blocks = (p.k_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = int(group % uint(blocks));
  int column = int(group / uint(blocks)) % SPLITS * RESULT_COLUMNS;
  int b_kv = int(group / uint(blocks)) / SPLITS;
  int b = b_kv / p.kv_heads, kv_h = b_kv % p.kv_heads, share = p.heads / p.kv_heads;
  int first = block * BM;
  begin_sequence(b);
  int k_len = key_count();
  if (RAGGED && first >= k_len) return;
  int begin = queries_begin(first) & ~(DROPOUT ? 31 : 0), end = queries_end(min(first + BM, k_len) - 1);
  Rows k = Rows(key_rows(p.key, p.key_stride, b, kv_h), p.key_stride[2] * ELEM_BYTES, 0, k_len, p.head_dim);
  Rows v = Rows(key_rows(p.value, p.value_stride, b, kv_h), p.value_stride[2] * ELEM_BYTES, 0, k_len, p.v_dim);
  Rows none = Rows(0, 0, 0, 0, 0);
  Weights w;
  w.key0 = first + ty() * ROWS;
  w.end = end;
  w.bias = 0;
  Dropout dropout;
  if (DROPOUT) dropout = dropout_begin();

  ResultTile dk, dv;
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) dk.v[i] = dv.v[i] = 0.0;

  const int keys_last = min(first + BM, k_len) - 1;
  Rows q = head_rows(p.query, p.query_stride, b, kv_h * share, end, p.head_dim);
  fetch_scores(k, first, q, begin, 0);
  [[dont_unroll]] for (int head = 0; head < share; ++head) {
    int h = kv_h * share + head;
    Rows g = head_rows(p.grad_out, p.grad_out_stride, b, h, end, p.v_dim);
    Rows next_q = head_rows(p.query, p.query_stride, b, min(h + 1, p.heads - 1), end, p.head_dim);
    w.bh = b * p.heads + h;
    if (BIAS_DTYPE >= 0) w.bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] +
        int64_t(h) * p.bias_stride[1]);
    int query_begin = begin, following;
    if (BLOCK_MASK) {
      query_begin = tile_from(next_kept_query(w.bias, first, keys_last, begin, end), begin, end);
      fetch_scores(k, first, q, query_begin, 0);  // which the head before did not know
    }
    [[dont_unroll]] for (int query0 = query_begin; query0 < end; query0 = following) {
      following = query0 + BN;
      if (BLOCK_MASK) following = tile_from(next_kept_query(w.bias, first, keys_last, following, end), begin, end);
      w.query0 = query0;
      if (DROPOUT) draw_kept(dropout, w.bh, first, query0, true);
      [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
        int row = min(query0 + tx() + LANES * j, query_count() - 1);
        const uint64_t at = p.stats + uint64_t(stats_index(w.bh, row)) * STATS_BYTES;
        const vec2 stats = uintBitsToFloat(U32x2Ref(at).v);
        w.lse[j] = stats.x * UNIT;
        w.lo[j] = TWO_PARTS ? F32Ref(at + 8).v : 0.0;
        w.delta[j] = stats.y;
      }
      ScoreTile s, dp;
      scores(s, k, first, q, query0, v, g);
      if (DROPOUT) read_kept(w.kept, first, query0, true);
      scores(dp, v, first, g, query0, none, none);
      fetch_strip(g, query0, column);
      bool whole = query0 + BN <= end && seen_whole(query0, query0 + BN - 1, first, first + BM - 1);
      if (whole) score_gradients(s, dp, w, true);
      else score_gradients(s, dp, w, false);
      bool last = following >= end;
      accumulate(dv, dp, g, query0, column, STRIPS, none, 0, q, query0);
      Rows then_q = q;
      if (last) then_q = next_q;
      accumulate(dk, s, q, query0, column, SCORES, k, first, then_q, last ? begin : following);
      q = then_q;
    }
    if (BLOCK_MASK) q = next_q;  // also of a head without tiles
  }

  RowFactor factor;
  [[unroll]] for (int i = 0; i < ROWS; ++i) factor.v[i] = 1.0;
  store_result(dv, key_rows(p.grad_value, p.grad_value_stride, b, kv_h), p.grad_value_stride[2], first, k_len, column,
      p.v_dim, factor);
  [[unroll]] for (int i = 0; i < ROWS; ++i) factor.v[i] = p.scale;
  store_result(dk, key_rows(p.grad_key, p.grad_key_stride, b, kv_h), p.grad_key_stride[2], first, k_len, column,
      p.head_dim, factor);
}
