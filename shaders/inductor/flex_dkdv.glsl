// dK and dV of FlexAttention, FlashAttention-2 backward (Dao 2023):
//   dV = P^T dO;  dK = scale * dS^T Q;  P and dS as in flex_dq.glsl
// Scores are computed transposed, keys as rows. The queries of every head of the key head pass in turn: deterministic.
#include "inductor/flex.glsl"

struct Stats { float lse[COLUMNS], delta[COLUMNS]; };

// Transposed scores become dS, and dP becomes P.
void score_gradients(inout ScoreTile s, inout ScoreTile dp, Stats stats, Place at, int h, int query0, int end,
                     bool full) {
  const int key0 = at.first + ty() * ROWS;
  FLEX_UNROLL for (int e = 0; e < ROWS * COLUMNS; ++e) {
    const int row = query0 + tx() + LANES * (e % COLUMNS), key = key0 + e / COLUMNS;
    const int m = min(row, end - 1), n = min(key, at.row_end - 1);
    const float x = s.v[e] * FLEX_SCALE, y = score_mod(x, at.b, h, m, n);
    const bool seen = (full || mask_mod(at.b, h, m, n)) && row < end && key < at.row_end &&
        stats.lse[e % COLUMNS] > NEG_INF;
    const float weight = seen ? exp2(y * LOG2E - stats.lse[e % COLUMNS]) : 0.0;
    const float ds = score_grad(x, at.b, h, m, n, weight * (dp.v[e] - stats.delta[e % COLUMNS]), false);
    dp.v[e] = weight;
    s.v[e] = seen ? ds : 0.0;
  }
}

void main() {
  Place at;
  if (!take_place(at, FLEX_KV_LEN, FLEX_KV_BLOCK, FLEX_KV_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  const int b = at.b, kv_h = at.h, share = FLEX_HEADS / FLEX_KV_HEADS;
  const Rows none = Rows(0ul, 0l, 0l, 0, 0);
  const Rows k = Rows(FLEX_ROWS_KEY(b, kv_h), FLEX_STEP_KEY, 0l, at.row_end, HEAD_DIM);
  const Rows v = Rows(FLEX_ROWS_VALUE(b, kv_h), FLEX_STEP_VALUE, 0l, at.row_end, V_DIM);
  ResultTile dk, dv;
  [[unroll]] for (int i = 0; i < ROWS * PER_LANE; ++i) dk.v[i] = dv.v[i] = 0.0;
  [[dont_unroll]] for (int turn_ = 0; turn_ < share * FLEX_PARTS; ++turn_) {
    const int h = kv_h * share + turn_ / FLEX_PARTS;
    const bool full = turn_ % FLEX_PARTS == 1;
    const Table table = table_of(full, b, h, at.block);
    const int count = table_count(table);
    [[dont_unroll]] for (int entry = 0; entry < count; ++entry) {
      const Span span = entry_span(table, entry, FLEX_Q_BLOCK, FLEX_Q_LEN);
      const Rows q = Rows(FLEX_ROWS_QUERY(b, h), FLEX_STEP_QUERY, 0l, span.end, HEAD_DIM);
      const Rows g = Rows(FLEX_ROWS_GRAD_OUT(b, h), FLEX_STEP_GRAD_OUT, 0l, span.end, V_DIM);
      [[dont_unroll]] for (int query0 = span.begin; query0 < span.end; query0 += BN) {
        Stats stats;
        [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
          const int row = min(query0 + tx() + LANES * j, span.end - 1);
          const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + row) * 4ul;
          stats.lse[j] = F32Ref(FLEX_LSE + stat).v;
          stats.delta[j] = F32Ref(FLEX_DELTA + stat).v;
        }
        ScoreTile s, dp;
        fetch_scores(k, at.first, q, query0, 0);
        scores(s, k, at.first, q, query0, v, g);
        scores(dp, v, at.first, g, query0, none, none);
        fetch_strip(g, query0, at.column);
        score_gradients(s, dp, stats, at, h, query0, span.end, full);
        accumulate(dv, dp, g, query0, at.column, STRIPS, none, 0, q, query0);
        accumulate(dk, s, q, query0, at.column, NOTHING, none, 0, none, 0);
      }
    }
  }
  RowFactor factor;
  [[unroll]] for (int i = 0; i < ROWS; ++i) factor.v[i] = 1.0;
  store_result(dv, FLEX_ROWS_GRAD_VALUE(b, kv_h), FLEX_STEP_GRAD_VALUE / ELEM_BYTES, at.first, at.row_end, at.column,
      V_DIM, factor);
  [[unroll]] for (int i = 0; i < ROWS; ++i) factor.v[i] = FLEX_SCALE;
  store_result(dk, FLEX_ROWS_GRAD_KEY(b, kv_h), FLEX_STEP_GRAD_KEY / ELEM_BYTES, at.first, at.row_end, at.column,
      HEAD_DIM, factor);
}
