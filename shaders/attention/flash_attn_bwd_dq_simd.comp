#pragma aule feature subgroup_shuffle
#pragma aule params ring
#pragma aule inline
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// FlashAttention-2 backward (Dao 2023) for software devices, dQ, and the full bias gradient if GRAD_BIAS:
//   P = exp(S - LSE);  dP = dropout(dO V^T);  dS = P * (dP - delta);  dQ = scale * dS K;  dBias = dS
// Lanes own queries as in flash_attn_fwd_simd. Every element has one writer and one order of summation: deterministic,
// no atomics.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simd.md
#include "attention/parts/simd.glsl"

int b, h, bh, kv_h;
int first, row0;  // the block's first query, this lane's
int q_len, k_len, d_qk, d_v, diagonal, left, right;
float softcap, dropout_scale;
float q[ROWS * DP], dq[ROWS * DP], g[ROWS * DVP], lse[ROWS], lo[ROWS], delta[ROWS];  // g: dO

// The key that passes, the rows of K and V that it has, and each row's bias.
int begin, end, step, key;
uint64_t k_step, v_step, k_row, v_row, bias_row[ROWS], grad_bias_row[ROWS], bias_step;
Dropout dropout;
uint kept[ROWS];       // of 32 keys
float s[ROWS], dp[ROWS];  // scores, then dS; dP
vec2 k_two[DP / COLS_AT_ONCE];

bool again;  // delta is summed first
uint64_t k_first, v_first;
float sum[ROWS];  // of P * dP

// Loads queries, dO and statistics, and clears dQ.
void load_queries() {
  uint64_t q_base = query_rows(p.query, p.query_stride, b, h);
  uint64_t g_base = query_rows(p.grad_out, p.grad_out_stride, b, h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    int row = min(row0 + r, q_len - 1);
    uint64_t q_row = q_base + uint64_t(int64_t(row) * p.query_stride[2] * ELEM_BYTES);
    [[unroll]] for (int d = 0; d < DP; d += 2) {
      vec2 x = load_row_pair(q_row, d, d_qk) * p.scale;
      q[r * DP + d] = x.x;
      q[r * DP + d + 1] = x.y;
      dq[r * DP + d] = 0.0;
      dq[r * DP + d + 1] = 0.0;
    }
    uint64_t g_row = g_base + uint64_t(int64_t(row) * p.grad_out_stride[2] * ELEM_BYTES);
    [[unroll]] for (int d = 0; d < DVP; d += 2) {
      vec2 x = load_row_pair(g_row, d, d_v);
      g[r * DVP + d] = x.x;
      g[r * DVP + d + 1] = x.y;
    }
    uint64_t stats = p.stats + uint64_t(stats_index(bh, row)) * STATS_BYTES;
    lse[r] = F32Ref(stats).v;
    delta[r] = F32Ref(stats + 4).v;
    lo[r] = TWO_PARTS ? F32Ref(stats + 8).v : 0.0;
  }
}

void begin_keys() {
  begin = keys_begin(first);
  end = keys_end(min(first + W * ROWS, q_len) - 1);
  k_step = uint64_t(p.key_stride[2] * ELEM_BYTES);
  v_step = uint64_t(p.value_stride[2] * ELEM_BYTES);
  k_row = key_rows(p.key, p.key_stride, b, kv_h) + uint64_t(begin) * k_step;
  v_row = key_rows(p.value, p.value_stride, b, kv_h) + uint64_t(begin) * v_step;
  bias_step = bias_bytes() * uint64_t(p.bias_stride[3]);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    int row = min(row0 + r, q_len - 1);
    if (BIAS_DTYPE >= 0)
      bias_row[r] = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1] +
          int64_t(bias_row_of(row)) * p.bias_stride[2] + int64_t(bias_column_of(begin)) * p.bias_stride[3]);
    if (GRAD_BIAS) grad_bias_row[r] = p.grad_bias + uint64_t((int64_t(bh) * q_len + row) * k_len + begin) * 4;
  }
  if (DROPOUT) dropout = dropout_begin();
}

void begin_delta() {
  again = sums_delta(end - begin, W * ROWS);
  k_first = k_row;
  v_first = v_row;
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    sum[r] = 0.0;
    if (DTYPE != AULE_DT_F32) sum[r] = delta_of_logsumexp(stats_index(bh, min(row0 + r, q_len - 1)));
  }
}

// S = Q K^T and dP = dO V^T.
void products() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] = dp[r] = 0.0;
  [[unroll]] for (int c = 0; c < DP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(k_row, c, d_qk);
    k_two[c / COLS_AT_ONCE] = x;
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float k = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] += q[r * DP + c + e] * k;
    }
  }
  [[unroll]] for (int c = 0; c < DVP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(v_row, c, d_v);
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float v = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) dp[r] += g[r * DVP + c + e] * v;
    }
  }
}

// dS, or what this key adds to delta.
void score_gradients() {
  if (DROPOUT && (key == begin || (key & 31) == 0)) {
    [[unroll]] for (int r = 0; r < ROWS; ++r) kept[r] = dropout_row(dropout, bh, row0 + r, uint(key) / 32u);
  }
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float x = s[r], slope = 1.0;
    if (SOFTCAP) {
      float t = capped_tanh(x / softcap);
      x = softcap * t;
      slope = 1.0 - t * t;
    }
    int seen = key - (row0 + r) - diagonal;
    if (asks_elements(MASK_ROWS)) {
      const int past = BLOCK_MASK ? bias_column_of(key) - bias_column_of(begin) : 0;
      x += load_bias(bias_row[r] + uint64_t(uint(past)) * bias_step, seen);
      if (!BLOCK_MASK) bias_row[r] += bias_step;
    }
    bool visible = seen >= -left && seen <= right && x > NEG_INF;
    float prob = visible ? exp(below_logsumexp(x, lse[r], lo[r])) : 0.0;
    float gp = dp[r];
    if (DROPOUT) gp = (kept[r] >> (key & 31) & 1u) != 0u ? gp * dropout_scale : 0.0;
    float ds = prob * (gp - delta[r]);
    if (DTYPE != AULE_DT_F32) {
      sum[r] += step < 0 ? prob * gp : 0.0;
      ds = step < 0 ? 0.0 : ds;
    }
    if (GRAD_BIAS) {
      if (row0 + r < q_len) F32Ref(grad_bias_row[r]).v = ds;
      grad_bias_row[r] += 4;
    }
    s[r] = SOFTCAP ? ds * slope : ds;
  }
}

// dQ += dS K.
void accumulate() {
  [[unroll]] for (int c = 0; c < DP; c += COLS_AT_ONCE) {
    vec2 x = k_two[c / COLS_AT_ONCE];
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float k = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) dq[r * DP + c + e] += s[r] * k;
    }
  }
}

void next_key() {
  bool turn = DTYPE != AULE_DT_F32 && step == -1;  // from delta to dQ
  k_row = turn ? k_first : k_row + k_step;
  v_row = turn ? v_first : v_row + v_step;
  if (DTYPE != AULE_DT_F32) {
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
      delta[r] = turn ? sum[r] : delta[r];
      if (BIAS_DTYPE >= 0 && !BLOCK_MASK) bias_row[r] -= turn ? bias_step * uint64_t(end - begin) : uint64_t(0);
      if (GRAD_BIAS) grad_bias_row[r] -= turn ? uint64_t(end - begin) * 4 : uint64_t(0);
    }
  }
}

void store_delta() {
  if (again) {
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      if (row0 + r < q_len) F32Ref(p.stats + uint64_t(stats_index(bh, row0 + r)) * STATS_BYTES + 4).v = delta[r];
  }
}

void store_result() {
  uint64_t dq_base = query_rows(p.grad_query, p.grad_query_stride, b, h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (row0 + r < q_len) {
      uint64_t row = dq_base + uint64_t(int64_t(row0 + r) * p.grad_query_stride[2] * ELEM_BYTES);
      [[unroll]] for (int d = 0; d < DP; d += 2)
        store_row_pair(row, d, d_qk, vec2(dq[r * DP + d], dq[r * DP + d + 1]) * p.scale);
    }
  }
}

void main() {
  int blocks = (p.q_len + W * ROWS - 1) / (W * ROWS);
  uint group = linear_group();
  if (group >= p.groups) return;
  int block = interleave(int(group % uint(blocks)), blocks);
  bh = int(group / uint(blocks));
  b = bh / p.heads;
  h = bh % p.heads;
  kv_h = h / (p.heads / p.kv_heads);
  int lane = int(gl_LocalInvocationID.x);
  first = block * W * ROWS;
  row0 = first + lane * ROWS;
  begin_sequence(b);
  q_len = query_count();
  k_len = key_count();
  d_qk = p.head_dim;
  d_v = p.v_dim;
  if (RAGGED && first >= q_len) return;
  diagonal = mask_diagonal();
  left = p.left;
  right = p.right;
  softcap = p.softcap;
  dropout_scale = p.dropout_scale;

  load_queries();
  begin_keys();
  begin_delta();
  // Steps below 0 pass the keys once more, for delta alone. A second loop would double the code.
  [[dont_unroll]] for (step = again ? begin - end : 0; step < end - begin; ++step) {
    key = step < 0 ? end + step : begin + step;
    if (BLOCK_MASK && (key == begin || key % max(MASK_KEYS, 1) == 0)) {
      const int to = next_kept_key(mask_of(b, h), first, min(first + W * ROWS, q_len) - 1, key, end);
      if (to >= end) {  // nothing more in this pass
        if (step >= 0) break;
        step = -1;
        next_key();
        continue;
      }
      k_row += k_step * uint64_t(uint(to - key));
      v_row += v_step * uint64_t(uint(to - key));
      step += to - key;
      key = to;
    }
    products();
    score_gradients();
    accumulate();
    next_key();
  }
  store_delta();
  store_result();
}
