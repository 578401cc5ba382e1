// dQ of FlexAttention, FlashAttention-2 backward (Dao 2023):
//   P = exp2(S - logsumexp);  dP = dO V^T;  dS = score_grad(P * (dP - delta));  dQ = scale * dS K
// score_grad() also adds to the gradients of captured tensors, by atomics. Without those, deterministic.
#include "inductor/flex.glsl"

// Scores become dS.
void score_gradients(inout ScoreTile s, ScoreTile dp, RowFactor lse, RowFactor delta, Place at, int key0, int end,
                     bool full) {
  const int row0 = at.first + ty() * ROWS;
  FLEX_UNROLL for (int e = 0; e < ROWS * COLUMNS; ++e) {
    const int row = row0 + e / COLUMNS, key = key0 + tx() + LANES * (e % COLUMNS);
    const int m = min(row, at.row_end - 1), n = min(key, end - 1);
    const float x = s.v[e] * FLEX_SCALE, y = score_mod(x, at.b, at.h, m, n);
    const bool seen =
        (full || mask_mod(at.b, at.h, m, n)) && key < end && row < at.row_end && lse.v[e / COLUMNS] > NEG_INF;
    const float weight = seen ? exp2(y * LOG2E - lse.v[e / COLUMNS]) : 0.0;
    const float ds = score_grad(x, at.b, at.h, m, n, weight * (dp.v[e] - delta.v[e / COLUMNS]), seen && at.column == 0);
    s.v[e] = seen ? ds : 0.0;
  }
}

void main() {
  Place at;
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  const int b = at.b, h = at.h, kv_h = h / (FLEX_HEADS / FLEX_KV_HEADS);
  const Rows none = Rows(0ul, 0l, 0l, 0, 0);
  const Rows q = Rows(FLEX_ROWS_QUERY(b, h), FLEX_STEP_QUERY, 0l, at.row_end, HEAD_DIM);
  const Rows g = Rows(FLEX_ROWS_GRAD_OUT(b, h), FLEX_STEP_GRAD_OUT, 0l, at.row_end, V_DIM);
  ResultTile dq;
  RowFactor lse, delta, factor;
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) dq.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const int row = min(at.first + ty() * ROWS + i, at.row_end - 1);
    const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + row) * 4ul;
    lse.v[i] = F32Ref(FLEX_LSE + stat).v;
    delta.v[i] = F32Ref(FLEX_DELTA + stat).v;
    factor.v[i] = FLEX_SCALE;
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
        ScoreTile s, dp;
        fetch_scores(q, at.first, k, key0, 0);
        scores(s, q, at.first, k, key0, g, v);
        scores(dp, g, at.first, v, key0, none, none);
        fetch_strip(k, key0, at.column);
        score_gradients(s, dp, lse, delta, at, key0, span.end, full);
        accumulate(dq, s, k, key0, at.column, NOTHING, none, 0, none, 0);
      }
    }
  }
  store_result(dq, FLEX_ROWS_GRAD_QUERY(b, h), FLEX_STEP_GRAD_QUERY / ELEM_BYTES, at.first, at.row_end, at.column,
      HEAD_DIM, factor);
}
