#pragma aule feature subgroup_shuffle
#pragma aule params ring
#pragma aule inline
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// FlashAttention-2 backward (Dao 2023) for software devices, dK and dV:
//   dV = dropout(P)^T dO;  dK = scale * dS^T Q;  P and dS as in flash_attn_bwd_dq_simd
//
// Lane l of workgroup (block, b, key head) owns keys block*W*ROWS + l*ROWS + {0..ROWS-1}. The queries of every head of
// the key head pass one at a time, so grouped queries need no second sum and no atomics. Deterministic.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simd.md
#include "attention/parts/simd.glsl"

int b, kv_h, share;  // share: query heads of a key head
int first, key0;     // the block's first key, this lane's
int q_len, k_len, d_qk, d_v, diagonal, left, right;
float scale, softcap, dropout_scale;
float k[ROWS * DP], dk[ROWS * DP], v[ROWS * DVP], dv[ROWS * DVP];

// The queries that see some key of the block, and the addresses of the group's first head.
int begin, end, rows;
uint64_t q_step, g_step, q_base, g_base, q_head, g_head, all_stats, bias_base[ROWS];
int64_t bias_q, bias_h;
int bh0;
Dropout dropout;

// The query that passes.
int head, row;
uint64_t q_row, g_row, stats;
uint kept[ROWS];                  // of 32 queries
float s[ROWS], dp[ROWS], weight[ROWS];  // scores, then dS; dP; P
vec2 q_two[DP / COLS_AT_ONCE], g_two[DVP / COLS_AT_ONCE];

// Loads the keys, scaled, and the values, and clears dK and dV.
void load_keys() {
  uint64_t k_base = key_rows(p.key, p.key_stride, b, kv_h);
  uint64_t v_base = key_rows(p.value, p.value_stride, b, kv_h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    int key = min(key0 + r, k_len - 1);
    uint64_t k_row = k_base + uint64_t(int64_t(key) * p.key_stride[2] * ELEM_BYTES);
    [[unroll]] for (int d = 0; d < DP; d += 2) {
      vec2 x = load_row_pair(k_row, d, d_qk) * scale;
      k[r * DP + d] = x.x;
      k[r * DP + d + 1] = x.y;
      dk[r * DP + d] = 0.0;
      dk[r * DP + d + 1] = 0.0;
    }
    uint64_t v_row = v_base + uint64_t(int64_t(key) * p.value_stride[2] * ELEM_BYTES);
    [[unroll]] for (int d = 0; d < DVP; d += 2) {
      vec2 x = load_row_pair(v_row, d, d_v);
      v[r * DVP + d] = x.x;
      v[r * DVP + d + 1] = x.y;
      dv[r * DVP + d] = 0.0;
      dv[r * DVP + d + 1] = 0.0;
    }
  }
}

void begin_queries() {
  begin = queries_begin(first);
  end = queries_end(min(first + W * ROWS, k_len) - 1);
  rows = max(end - begin, 0);
  q_step = uint64_t(p.query_stride[2] * ELEM_BYTES);
  g_step = uint64_t(p.grad_out_stride[2] * ELEM_BYTES);
  q_base = query_rows(p.query, p.query_stride, b, kv_h * share) + uint64_t(begin) * q_step;
  g_base = query_rows(p.grad_out, p.grad_out_stride, b, kv_h * share) + uint64_t(begin) * g_step;
  q_head = uint64_t(p.query_stride[1] * ELEM_BYTES);
  g_head = uint64_t(p.grad_out_stride[1] * ELEM_BYTES);
  bh0 = b * p.heads + kv_h * share;
  all_stats = p.stats;
  stats = all_stats + uint64_t(stats_index(bh0, begin)) * STATS_BYTES;
  bias_q = p.bias_stride[2];
  bias_h = p.bias_stride[1];
  if (BIAS_DTYPE >= 0) {
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      bias_base[r] = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(kv_h * share) * bias_h +
          int64_t(BLOCK_MASK ? 0 : begin) * bias_q +
          int64_t(bias_column_of(min(key0 + r, k_len - 1))) * p.bias_stride[3]);
  }
  if (DROPOUT) dropout = dropout_begin();
}

// S^T = K Q^T and dP^T = V dO^T.
void products() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] = dp[r] = 0.0;
  [[unroll]] for (int c = 0; c < DP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(q_row, c, d_qk);
    q_two[c / COLS_AT_ONCE] = x;
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float q = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] += k[r * DP + c + e] * q;
    }
  }
  [[unroll]] for (int c = 0; c < DVP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(g_row, c, d_v);
    g_two[c / COLS_AT_ONCE] = x;
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float g = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) dp[r] += v[r * DVP + c + e] * g;
    }
  }
}

// P and dS.
void score_gradients() {
  vec2 stat = uintBitsToFloat(unpackUint2x32(PairRef(stats).v));  // {logsumexp, delta}
  const float lo = TWO_PARTS ? F32Ref(stats + 8).v : 0.0;
  if (DROPOUT && (row == begin || (row & 31) == 0)) {
    [[unroll]] for (int r = 0; r < ROWS; ++r) kept[r] = dropout_column(dropout, bh0 + head, uint(row) / 32u, key0 + r);
  }
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float x = s[r], slope = 1.0;
    if (SOFTCAP) {
      float t = capped_tanh(x / softcap);
      x = softcap * t;
      slope = 1.0 - t * t;
    }
    int seen = key0 + r - row - diagonal;
    if (asks_elements(MASK_KEYS)) x += load_bias(bias_base[r] + bias_bytes() *
        uint64_t(int64_t(head) * bias_h + int64_t(BLOCK_MASK ? bias_row_of(row) : row - begin) * bias_q), seen);
    bool visible = seen >= -left && seen <= right && x > NEG_INF;
    float prob = visible ? exp(below_logsumexp(x, stat.x, lo)) : 0.0;
    float gp = dp[r];
    weight[r] = prob;
    if (DROPOUT) {
      bool keep = (kept[r] >> (row & 31) & 1u) != 0u;
      gp = keep ? gp * dropout_scale : 0.0;
      weight[r] = keep ? prob * dropout_scale : 0.0;
    }
    float ds = prob * (gp - stat.y);
    s[r] = SOFTCAP ? ds * slope : ds;
  }
}

// dV += P^T dO and dK += dS^T Q.
void accumulate() {
  [[unroll]] for (int c = 0; c < DVP; c += COLS_AT_ONCE) {
    vec2 x = g_two[c / COLS_AT_ONCE];
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float g = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) dv[r * DVP + c + e] += weight[r] * g;
    }
  }
  [[unroll]] for (int c = 0; c < DP; c += COLS_AT_ONCE) {
    vec2 x = q_two[c / COLS_AT_ONCE];
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float q = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) dk[r * DP + c + e] += s[r] * q;
    }
  }
}

// The next query of the head, or the first of the next head.
void next_query() {
  row += 1;
  q_row += q_step;
  g_row += g_step;
  stats += STATS_BYTES;
  bool next = row == end;  // of the group, the next head
  head = next ? head + 1 : head;
  q_row = next ? q_base + uint64_t(head) * q_head : q_row;
  g_row = next ? g_base + uint64_t(head) * g_head : g_row;
  stats = next ? all_stats + uint64_t(stats_index(bh0 + head, begin)) * STATS_BYTES : stats;
  row = next ? begin : row;
}

void store_result() {
  uint64_t dk_base = key_rows(p.grad_key, p.grad_key_stride, b, kv_h);
  uint64_t dv_base = key_rows(p.grad_value, p.grad_value_stride, b, kv_h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (key0 + r < k_len) {
      uint64_t dk_row = dk_base + uint64_t(int64_t(key0 + r) * p.grad_key_stride[2] * ELEM_BYTES);
      [[unroll]] for (int d = 0; d < DP; d += 2)
        store_row_pair(dk_row, d, d_qk, vec2(dk[r * DP + d], dk[r * DP + d + 1]) * scale);
      uint64_t dv_row = dv_base + uint64_t(int64_t(key0 + r) * p.grad_value_stride[2] * ELEM_BYTES);
      [[unroll]] for (int d = 0; d < DVP; d += 2)
        store_row_pair(dv_row, d, d_v, vec2(dv[r * DVP + d], dv[r * DVP + d + 1]));
    }
  }
}

void main() {
  int blocks = (p.k_len + W * ROWS - 1) / (W * ROWS);
  uint group = linear_group();
  if (group >= p.groups) return;
  int block = interleave(int(group % uint(blocks)), blocks);
  int b_kv = int(group / uint(blocks));
  b = b_kv / p.kv_heads;
  kv_h = b_kv % p.kv_heads;
  share = p.heads / p.kv_heads;
  int lane = int(gl_LocalInvocationID.x);
  first = block * W * ROWS;
  key0 = first + lane * ROWS;
  begin_sequence(b);
  q_len = query_count();
  k_len = key_count();
  d_qk = p.head_dim;
  d_v = p.v_dim;
  if (RAGGED && first >= k_len) return;
  diagonal = mask_diagonal();
  left = p.left;
  right = p.right;
  scale = p.scale;
  softcap = p.softcap;
  dropout_scale = p.dropout_scale;

  load_keys();
  begin_queries();

  // One loop over (head of the group, query): two nested loops would pass every accumulator through two masks.
  head = 0;
  row = begin;
  q_row = q_base;
  g_row = g_base;
  [[dont_unroll]] for (int step = share * rows; step > 0; --step) {
    if (BLOCK_MASK && (row == begin || row % max(MASK_ROWS, 1) == 0)) {
      const int to =
          next_kept_query(mask_of(b, kv_h * share + head), first, min(first + W * ROWS, k_len) - 1, row, end);
      const int passed = min(to, end - 1) - row;
      row += passed;
      q_row += q_step * uint64_t(uint(passed));
      g_row += g_step * uint64_t(uint(passed));
      stats += uint64_t(uint(passed)) * STATS_BYTES;
      step -= passed;
      if (to >= end) {  // nothing more of this head
        next_query();
        continue;
      }
    }
    products();
    score_gradients();
    accumulate();
    next_query();
  }
  store_result();
}
