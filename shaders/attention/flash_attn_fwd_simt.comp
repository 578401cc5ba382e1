#pragma aule axis SHUFFLE 0 1
#pragma aule feature subgroup_shuffle if SHUFFLE=1
#pragma aule params ring
#pragma aule inline
// O = softmax(scale * Q K^T + bias) V by online softmax, FlashAttention-2 forward (Dao 2023), in float32 arithmetic.
//
//   workgroup (block of BM queries, split of the value columns, b, h)     tiles of BN keys pass through shared memory
//
// Heavy causal blocks come first. Only tiles with keys that some row does not see are masked. Deterministic.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simt.md
#include "attention/parts/simt.glsl"

int column, bh, b, h, kv_h, first, row0, q_len, diagonal, left, right;
float scale, softcap;
int begin, end, key0;  // keys that some row may see, and a tile's first
Rows q, k, v, none;
uint64_t bias;
int64_t bias_q, bias_k;
Dropout dropout;
ResultTile o;
RowFactor m, l;  // l: of this invocation's columns, summed over x at the end
ScoreTile s;

// Rows of this head in memory, and its bias.
void place_operands() {
  q = Rows(query_rows(p.query, p.query_stride, b, h), p.query_stride[2] * ELEM_BYTES, 0, q_len, p.head_dim);
  k = Rows(key_rows(p.key, p.key_stride, b, kv_h), p.key_stride[2] * ELEM_BYTES, p.key_stride[0] * ELEM_BYTES, end,
      p.head_dim);
  v = Rows(key_rows(p.value, p.value_stride, b, kv_h), p.value_stride[2] * ELEM_BYTES,
      p.value_stride[0] * ELEM_BYTES, end, p.v_dim);
  none = Rows(0, 0, 0, 0, 0);
  bias = 0;
  bias_q = 0;
  bias_k = 0;
  if (BIAS_DTYPE >= 0) {
    bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
    bias_q = p.bias_stride[2];
    bias_k = p.bias_stride[3];
  }
  if (DROPOUT) dropout = dropout_begin();
}

// Scores of keys that a row does not see become -inf; the others get their bias.
void hide() {
  [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
    int key = key0 + tx() + LANES * j;
    [[unroll]] for (int i = 0; i < ROWS; ++i) {
      int row = row0 + i, seen = key - row - diagonal;
      float x = s.v[i * COLUMNS + j];
      if (BIAS_DTYPE >= 0 && key < end && row < q_len) x += load_bias(bias +
          bias_bytes() * uint64_t(int64_t(bias_row_of(row)) * bias_q + int64_t(bias_column_of(key)) * bias_k), seen);
      s.v[i * COLUMNS + j] = key < end && seen >= -left && seen <= right ? x : NEG_INF;
    }
  }
}

// Scores become P. What is summed so far follows the new maxima.
void online_softmax() {
  RowFactor top;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    top.v[i] = s.v[i * COLUMNS];
    [[unroll]] for (int j = 1; j < COLUMNS; ++j) top.v[i] = max(top.v[i], s.v[i * COLUMNS + j]);
  }
  over_rows(top, false);
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    float now = max(top.v[i], m.v[i]), ref = now == NEG_INF ? 0.0 : now, f = power(m.v[i] - ref);
    m.v[i] = now;
    l.v[i] *= f;
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      float weight = power(s.v[i * COLUMNS + j] - ref);
      l.v[i] += weight;
      s.v[i * COLUMNS + j] = weight;
    }
    [[unroll]] for (int j = 0; j < PER_LANE; ++j) o.v[i * PER_LANE + j] *= f;
  }
}

// Dropout: P of 0, or times its scale.
void drop() {
  if (DROPOUT) {
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      [[unroll]] for (int i = 0; i < ROWS; ++i)
        s.v[i * COLUMNS + j] = is_kept(first, ty() * ROWS + i, key0, tx() + LANES * j, false)
            ? s.v[i * COLUMNS + j] * p.dropout_scale : 0.0;
    }
  }
}

void store_rows() {
  over_rows(l, true);
  RowFactor inverse;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    float sum = l.v[i];
    inverse.v[i] = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
    if (column == 0 && tx() == 0 && row0 + i < q_len)
      F32Ref(p.logsumexp + uint64_t(stats_index(bh, row0 + i)) * 4).v = sum == 0.0 ? NEG_INF : m.v[i] / UNIT + log(sum);
  }
  store_result(o, query_rows(p.out_, p.out_stride, b, h), p.out_stride[2], first, q_len, column, p.v_dim, inverse);
}

void main() {
  int blocks = (p.q_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = blocks - 1 - int(group % uint(blocks));
  column = int(group / uint(blocks)) % SPLITS * RESULT_COLUMNS;
  bh = int(group / uint(blocks)) / SPLITS;
  b = bh / p.heads;
  h = bh % p.heads;
  kv_h = h / (p.heads / p.kv_heads);
  first = block * BM;
  row0 = first + ty() * ROWS;
  begin_sequence(b);
  q_len = query_count();
  if (RAGGED && first >= q_len) return;
  diagonal = mask_diagonal();
  left = p.left;
  right = p.right;
  scale = p.scale;
  softcap = p.softcap;
  begin = keys_begin(first) & ~(DROPOUT ? 31 : 0);
  end = keys_end(min(first + BM, q_len) - 1);
  place_operands();
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) o.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    m.v[i] = NEG_INF;
    l.v[i] = 0.0;
  }

  const int rows_end = min(first + BM, q_len) - 1, origin = begin;
  if (BLOCK_MASK) begin = tile_from(next_kept_key(bias, first, rows_end, begin, end), origin, end);
  fetch_scores(q, first, k, begin, 0);
  int following;
  [[dont_unroll]] for (key0 = begin; key0 < end; key0 = following) {
    following = key0 + BN;
    if (BLOCK_MASK) following = tile_from(next_kept_key(bias, first, rows_end, following, end), origin, end);
    if (DROPOUT) draw_kept(dropout, bh, first, key0, false);
    scores(s, q, first, k, key0, none, none);
    fetch_strip(v, key0, column);
    bool whole = key0 + BN <= end && seen_whole(first, first + BM - 1, key0, key0 + BN - 1);
    [[unroll]] for (int i = 0; i < ROWS * COLUMNS; ++i) {
      float slope;
      s.v[i] = capped(s.v[i], scale, softcap, slope);
    }
    if (!whole) {
      hide();
    }
    online_softmax();
    drop();
    accumulate(o, s, v, key0, column, SCORES, q, first, k, following);
  }
  store_rows();
}
