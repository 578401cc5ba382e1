#pragma aule params ring
// Token i of sequence b, at row lengths[b] + i of its cache:
//   key_cache[page, row, head] = k[b, i, head],  value_cache[page, row, head] = v[b, i, head],  lengths_after[b] = all
// The page is block_table[b][row / page_rows], without a table b. With tables of angles (ROTARY) q and k turn by those
// of the row (rotary.comp), and q goes to q_out [batch, tokens, heads, size], dense.
//
// An invocation has two times W elements of one token and head, q's heads before k's and v's. W is 16 bytes of elements
// if the host found addresses aligned, else 1. A row without a place is reported and not written. Strides are in
// elements, the last dimension is dense.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int TABLE_DTYPE = 0;
layout(constant_id = 2) const int LENGTH_DTYPE = 0;
layout(constant_id = 3) const bool BLOCK_TABLE = false;
layout(constant_id = 4) const bool ROTARY = false;
layout(constant_id = 5) const bool INTERLEAVED = false;
layout(constant_id = 6) const int W = 1;
const bool INVERSE = false;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "attention/parts/turn.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t q, k, v, q_out, key_cache, value_cache, lengths, lengths_after, block_table, cosines, sines, error;
  int64_t pages;
  int64_t q_stride[3], k_stride[3], v_stride[3];           // batch, token, head
  int64_t key_cache_stride[3], value_cache_stride[3];      // page, row, head
  uint total, tokens, q_heads, kv_heads;
  uint q_tasks, k_tasks, v_tasks, turning;                 // of one token and head
  uint size, v_size, page_rows, columns, table_rows, tag;  // columns: pages of a sequence
};
#include "common/params.glsl"
#include "kvcache/row_of_token.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.total)) return;
  const uint of_q = p.q_heads * p.q_tasks, of_k = p.kv_heads * p.k_tasks;
  const uint of_token = of_q + of_k + p.kv_heads * p.v_tasks, place = uint(id) % of_token;
  const uint token = uint(id) / of_token % p.tokens, batch = uint(id) / of_token / p.tokens;
  const bool is_q = place < of_q, is_v = place >= of_q + of_k;
  const uint at = is_q ? place : is_v ? place - of_q - of_k : place - of_q;
  const uint tasks = is_q ? p.q_tasks : is_v ? p.v_tasks : p.k_tasks, head = at / tasks, task = at % tasks;

  const CacheRow there = row_of_token(batch, token, place == 0u);
  const bool turns = ROTARY && !is_v && task < p.turning;
  const uvec2 both = places(task, is_v ? 0u : p.turning);
  const bool has_second = both.y < (is_v ? p.v_size : p.size);
  float c[MAX_E], s[MAX_E];
  if (turns) {
    const bool has_angles = there.row < p.table_rows;
    if (!has_angles && place == 0u)
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(there.row), int64_t(p.table_rows));
    const uint64_t from = uint64_t(has_angles ? there.row : 0u) * (p.turning * W) + W * task;
    load_table(p.cosines, from, c);
    load_table(p.sines, from, s);
  }
  const uint64_t base = is_q ? p.q : is_v ? p.v : p.k;
  int64_t x, y;
  uint64_t to;
  if (is_q) {
    x = int64_t(batch) * p.q_stride[0] + int64_t(token) * p.q_stride[1] + int64_t(head) * p.q_stride[2];
    y = ((int64_t(batch) * p.tokens + token) * p.q_heads + head) * p.size;
    to = p.q_out;
  } else if (is_v) {
    x = int64_t(batch) * p.v_stride[0] + int64_t(token) * p.v_stride[1] + int64_t(head) * p.v_stride[2];
    y = there.page * p.value_cache_stride[0] + int64_t(there.row % p.page_rows) * p.value_cache_stride[1] +
        int64_t(head) * p.value_cache_stride[2];
    to = p.value_cache;
  } else {
    x = int64_t(batch) * p.k_stride[0] + int64_t(token) * p.k_stride[1] + int64_t(head) * p.k_stride[2];
    y = there.page * p.key_cache_stride[0] + int64_t(there.row % p.page_rows) * p.key_cache_stride[1] +
        int64_t(head) * p.key_cache_stride[2];
    to = p.key_cache;
  }
  const uvec4 left = load_raw_many(base, uint64_t(x) + both.x);
  const uvec4 right = has_second ? load_raw_many(base, uint64_t(x) + both.y) : uvec4(0u);
  float u[MAX_E], v[MAX_E];
  turn(left, right, turns, c, s, u, v);
  if (!is_q && !there.is_there) return;
  store_many(to, uint64_t(y) + both.x, u);
  if (has_second) store_many(to, uint64_t(y) + both.y, v);
}
