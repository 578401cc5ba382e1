// As flex_dq.glsl, for software devices: one subgroup per workgroup, a lane owns a query, keys pass one at a time.
#include "inductor/flex.glsl"

void main() {
  Place at;
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;
  const int b = at.b, h = at.h, kv_h = h / (FLEX_HEADS / FLEX_KV_HEADS);
  const int m = at.first + int(gl_LocalInvocationID.x), m_read = min(m, at.row_end - 1);
  HeadRow q, dq;
  ValueRow g;
  q = load_row(q, FLEX_ROWS_QUERY(b, h) + uint64_t(int64_t(m_read) * FLEX_STEP_QUERY), HEAD_DIM);
  g = load_row(g, FLEX_ROWS_GRAD_OUT(b, h) + uint64_t(int64_t(m_read) * FLEX_STEP_GRAD_OUT), V_DIM);
  clear(dq);
  const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + m_read) * 4ul;
  const float lse = F32Ref(FLEX_LSE + stat).v, delta = F32Ref(FLEX_DELTA + stat).v;
  [[dont_unroll]] for (int part = 0; part < FLEX_PARTS; ++part) {
    const bool full = part == 1;
    const Table table = table_of(full, b, h, at.block);
    const int count = table_count(table);
    [[dont_unroll]] for (int entry = 0; entry < count; ++entry) {
      const Span span = entry_span(table, entry, FLEX_KV_BLOCK, FLEX_KV_LEN);
      [[dont_unroll]] for (int n = span.begin; n < span.end; ++n) {
        const uint64_t k = FLEX_ROWS_KEY(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_KEY);
        const uint64_t v = FLEX_ROWS_VALUE(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_VALUE);
        const float x = product(q, k, HEAD_DIM) * FLEX_SCALE, dp = product(g, v, V_DIM);
        const float y = score_mod(x, b, h, m_read, n);
        const bool seen = (full || mask_mod(b, h, m_read, n)) && m < at.row_end && lse > NEG_INF;
        const float weight = seen ? exp2(y * LOG2E - lse) : 0.0;
        const float ds = score_grad(x, b, h, m_read, n, weight * (dp - delta), seen);
        add(dq, 1.0, seen ? ds : 0.0, k, HEAD_DIM);
      }
    }
  }
  if (m < at.row_end)
    store_row(dq, FLEX_SCALE, FLEX_ROWS_GRAD_QUERY(b, h) + uint64_t(int64_t(m) * FLEX_STEP_GRAD_QUERY), HEAD_DIM);
}
