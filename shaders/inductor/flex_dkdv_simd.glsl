// As flex_dkdv.glsl, for software devices: one subgroup per workgroup, a lane owns a key, queries pass one at a time.
#include "inductor/flex.glsl"

void main() {
  Place at;
  if (!take_place(at, FLEX_KV_LEN, FLEX_KV_BLOCK, FLEX_KV_HEADS, FLEX_GROUPS)) return;
  const int b = at.b, kv_h = at.h, share = FLEX_HEADS / FLEX_KV_HEADS;
  const int n = at.first + int(gl_LocalInvocationID.x), n_read = min(n, at.row_end - 1);
  HeadRow k, dk;
  ValueRow v, dv;
  k = load_row(k, FLEX_ROWS_KEY(b, kv_h) + uint64_t(int64_t(n_read) * FLEX_STEP_KEY), HEAD_DIM);
  v = load_row(v, FLEX_ROWS_VALUE(b, kv_h) + uint64_t(int64_t(n_read) * FLEX_STEP_VALUE), V_DIM);
  clear(dk);
  clear(dv);
  [[dont_unroll]] for (int turn = 0; turn < share * FLEX_PARTS; ++turn) {
    const int h = kv_h * share + turn / FLEX_PARTS;
    const bool full = turn % FLEX_PARTS == 1;
    const Table table = table_of(full, b, h, at.block);
    const int count = table_count(table);
    [[dont_unroll]] for (int entry = 0; entry < count; ++entry) {
      const Span span = entry_span(table, entry, FLEX_Q_BLOCK, FLEX_Q_LEN);
      [[dont_unroll]] for (int m = span.begin; m < span.end; ++m) {
        const uint64_t q = FLEX_ROWS_QUERY(b, h) + uint64_t(int64_t(m) * FLEX_STEP_QUERY);
        const uint64_t g = FLEX_ROWS_GRAD_OUT(b, h) + uint64_t(int64_t(m) * FLEX_STEP_GRAD_OUT);
        const uint64_t stat = uint64_t((int64_t(b) * FLEX_HEADS + h) * FLEX_Q_LEN + m) * 4ul;
        const float lse = F32Ref(FLEX_LSE + stat).v, delta = F32Ref(FLEX_DELTA + stat).v;
        const float x = product(k, q, HEAD_DIM) * FLEX_SCALE, dp = product(v, g, V_DIM);
        const float y = score_mod(x, b, h, m, n_read);
        const bool seen = (full || mask_mod(b, h, m, n_read)) && n < at.row_end && lse > NEG_INF;
        const float weight = seen ? exp2(y * LOG2E - lse) : 0.0;
        const float ds = score_grad(x, b, h, m, n_read, weight * (dp - delta), false);
        add(dv, 1.0, weight, g, V_DIM);
        add(dk, 1.0, seen ? ds : 0.0, q, HEAD_DIM);
      }
    }
  }
  if (n < at.row_end) {
    store_row(dv, 1.0, FLEX_ROWS_GRAD_VALUE(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_GRAD_VALUE), V_DIM);
    store_row(dk, FLEX_SCALE, FLEX_ROWS_GRAD_KEY(b, kv_h) + uint64_t(int64_t(n) * FLEX_STEP_GRAD_KEY), HEAD_DIM);
  }
}
