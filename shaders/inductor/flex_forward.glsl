// O = softmax(score_mod(scale * Q K^T)) V over the keys that mask_mod shows, by online softmax with the running
// maximum, FlashAttention-2 forward (Dao 2023). Scores are exponents of 2; logsumexp and maxima are written so, too.
#include "inductor/flex.glsl"

// Scores become those of the modifiers, in units of log2.
void modify(inout ScoreTile s, Place at, int key0, int end, bool full) {
  const int row0 = at.first + ty() * ROWS;
  FLEX_UNROLL for (int e = 0; e < ROWS * COLUMNS; ++e) {
    const int row = row0 + e / COLUMNS, key = key0 + tx() + LANES * (e % COLUMNS);
    const int m = min(row, at.row_end - 1), n = min(key, end - 1);  // modifiers are asked about what exists alone
    const float x = score_mod(s.v[e] * FLEX_SCALE, at.b, at.h, m, n);
    const bool seen = (full || mask_mod(at.b, at.h, m, n)) && key < end;
    s.v[e] = seen ? x * LOG2E : NEG_INF;
  }
}

// Scores become P. What is summed so far follows the new maxima.
void online_softmax(inout ScoreTile s, inout ResultTile o, inout RowFactor top, inout RowFactor sum) {
  RowFactor now;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    now.v[i] = s.v[i * COLUMNS];
    [[unroll]] for (int j = 1; j < COLUMNS; ++j) now.v[i] = max(now.v[i], s.v[i * COLUMNS + j]);
  }
  over_rows(now, false);
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const float reached = max(now.v[i], top.v[i]), ref = reached == NEG_INF ? 0.0 : reached, f = exp2(top.v[i] - ref);
    top.v[i] = reached;
    sum.v[i] *= f;
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      s.v[i * COLUMNS + j] = exp2(s.v[i * COLUMNS + j] - ref);
      sum.v[i] += s.v[i * COLUMNS + j];
    }
    [[unroll]] for (int j = 0; j < PER_LANE; ++j) o.v[i * PER_LANE + j] *= f;
  }
}

void main() {
  Place at;
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  const int b = at.b, h = at.h, kv_h = h / (FLEX_HEADS / FLEX_KV_HEADS);
  const Rows none = Rows(0ul, 0l, 0l, 0, 0);
  const Rows q = Rows(FLEX_ROWS_QUERY(b, h), FLEX_STEP_QUERY, 0l, at.row_end, HEAD_DIM);
  ResultTile o;
  RowFactor top, sum;
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) o.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    top.v[i] = NEG_INF;
    sum.v[i] = 0.0;
  }
  [[dont_unroll]] for (int part = 0; part < FLEX_PARTS; ++part) {
    const bool full = part == 1;
    const Table table = table_of(full, b, h, at.block);
    const int count = table_count(table);
    [[dont_unroll]] for (int entry = 0; entry < count; ++entry) {
      const Span span = entry_span(table, entry, FLEX_KV_BLOCK, FLEX_KV_LEN);
      const Rows k = Rows(FLEX_ROWS_KEY(b, kv_h), FLEX_STEP_KEY, 0l, span.end, HEAD_DIM);
      const Rows v = Rows(FLEX_ROWS_VALUE(b, kv_h), FLEX_STEP_VALUE, 0l, span.end, V_DIM);
      [[dont_unroll]] for (int key0 = span.begin; key0 < span.end; key0 += BN) {
        ScoreTile s;
        fetch_scores(q, at.first, k, key0, 0);
        scores(s, q, at.first, k, key0, none, none);
        fetch_strip(v, key0, at.column);
        modify(s, at, key0, span.end, full);
        online_softmax(s, o, top, sum);
        accumulate(o, s, v, key0, at.column, NOTHING, none, 0, none, 0);
      }
    }
  }
  over_rows(sum, true);
  RowFactor inverse;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const int row = at.first + ty() * ROWS + i;
    inverse.v[i] = sum.v[i] == 0.0 ? 0.0 : 1.0 / sum.v[i];  // a row that sees nothing is 0
    if (at.column == 0 && tx() == 0 && row < at.row_end) {
      const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + row) * 4ul;
      FLEX_STORE_STATS(stat, sum.v[i] == 0.0 ? NEG_INF : top.v[i] + log2(sum.v[i]), top.v[i]);
    }
  }
  store_result(o, FLEX_ROWS_OUT(b, h), FLEX_STEP_OUT / ELEM_BYTES, at.first, at.row_end, at.column, V_DIM, inverse);
}
