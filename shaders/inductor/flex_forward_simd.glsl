// As flex_forward.glsl, for software devices: one subgroup per workgroup, a lane owns a row, keys pass one at a time
// (simd.glsl). No barrier, no shared memory.
#include "inductor/flex.glsl"

void main() {
  Place at;
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;
  const int b = at.b, h = at.h, kv_h = h / (FLEX_HEADS / FLEX_KV_HEADS);
  const int m = at.first + int(gl_LocalInvocationID.x), m_read = min(m, at.row_end - 1);
  HeadRow q;
  ValueRow o;
  q = load_row(q, FLEX_ROWS_QUERY(b, h) + uint64_t(int64_t(m_read) * FLEX_STEP_QUERY), HEAD_DIM);
  clear(o);
  float top = NEG_INF, sum = 0.0;
  [[dont_unroll]] for (int part = 0; part < FLEX_PARTS; ++part) {
    const bool full = part == 1;
    const Table table = table_of(full, b, h, at.block);
    const int count = table_count(table);
    [[dont_unroll]] for (int entry = 0; entry < count; ++entry) {
      const Span span = entry_span(table, entry, FLEX_KV_BLOCK, FLEX_KV_LEN);
      [[dont_unroll]] for (int n = span.begin; n < span.end; ++n) {
        const float s = product(q, FLEX_ROWS_KEY(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_KEY), HEAD_DIM);
        const float y = score_mod(s * FLEX_SCALE, b, h, m_read, n);
        const float x = full || mask_mod(b, h, m_read, n) ? y * LOG2E : NEG_INF;
        const float reached = max(top, x), ref = reached == NEG_INF ? 0.0 : reached;
        const float f = exp2(top - ref), weight = exp2(x - ref);
        top = reached;
        sum = sum * f + weight;
        add(o, f, weight, FLEX_ROWS_VALUE(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_VALUE), V_DIM);
      }
    }
  }
  if (m < at.row_end) {
    const uint64_t out_row = FLEX_ROWS_OUT(b, h) + uint64_t(int64_t(m) * FLEX_STEP_OUT);
    store_row(o, sum == 0.0 ? 0.0 : 1.0 / sum, out_row, V_DIM);  // a row that sees nothing is 0
    const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + m) * 4ul;
    FLEX_STORE_STATS(stat, sum == 0.0 ? NEG_INF : top + log2(sum), top);
  }
}
