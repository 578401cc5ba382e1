#pragma aule feature subgroup_shuffle
#pragma aule params ring
#pragma aule inline
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// O = softmax(scale * Q K^T + bias) V by online softmax, FlashAttention-2 forward (Dao 2023), for software devices.
//
// Lane l of workgroup (block, b, h) owns queries block*W*ROWS + l*ROWS + {0..ROWS-1}. Keys pass one at a time
// (simd.glsl). Deterministic.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simd.md
#include "attention/parts/simd.glsl"

int b, h, bh, kv_h;
int first, row0;  // the block's first query, this lane's
int q_len, d_qk, d_v, diagonal, left, right;
float softcap, dropout_scale;
float q[ROWS * DP], o[ROWS * DVP], m[ROWS], l[ROWS];  // running maxima, and sums of P

// The key that passes, the rows of K and V that it has, and each row's bias.
int begin, end, key;
uint64_t k_step, v_step, k_row, v_row, bias_row[ROWS], bias_step;
Dropout dropout;
uint kept[ROWS];      // of 32 keys
float s[ROWS], f[ROWS];  // scores, then P; the factor that brings older sums to the new maxima

// Loads the queries, scaled, and clears what is summed over the keys.
void load_queries() {
  uint64_t q_base = query_rows(p.query, p.query_stride, b, h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    uint64_t row = q_base + uint64_t(int64_t(min(row0 + r, q_len - 1)) * p.query_stride[2] * ELEM_BYTES);
    [[unroll]] for (int d = 0; d < DP; d += 2) {
      vec2 x = load_row_pair(row, d, d_qk) * p.scale;
      q[r * DP + d] = x.x;
      q[r * DP + d + 1] = x.y;
    }
    [[unroll]] for (int d = 0; d < DVP; ++d) o[r * DVP + d] = 0.0;
    m[r] = NEG_INF;
    l[r] = 0.0;
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
  if (BIAS_DTYPE >= 0) {
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      bias_row[r] = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1] +
          int64_t(bias_row_of(min(row0 + r, q_len - 1))) * p.bias_stride[2] +
          int64_t(bias_column_of(begin)) * p.bias_stride[3]);
  }
  if (DROPOUT) dropout = dropout_begin();
}

// S = Q K^T.
void scores() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] = 0.0;
  [[unroll]] for (int c = 0; c < DP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(k_row, c, d_qk);
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float k = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) s[r] += q[r * DP + c + e] * k;
    }
  }
}

// Scores become P, relative to the new maxima.
void online_softmax() {
  if (DROPOUT && (key == begin || (key & 31) == 0)) {
    [[unroll]] for (int r = 0; r < ROWS; ++r) kept[r] = dropout_row(dropout, bh, row0 + r, uint(key) / 32u);
  }
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float x = s[r];
    if (SOFTCAP) x = softcap * capped_tanh(x / softcap);
    int seen = key - (row0 + r) - diagonal;  // position of the key in this row's band
    if (asks_elements(MASK_ROWS)) {
      const int past = BLOCK_MASK ? bias_column_of(key) - bias_column_of(begin) : 0;
      x += load_bias(bias_row[r] + uint64_t(uint(past)) * bias_step, seen);
      if (!BLOCK_MASK) bias_row[r] += bias_step;
    }
    x = seen >= -left && seen <= right ? x : NEG_INF;
    float top = max(m[r], x);
    float ref = top == NEG_INF ? 0.0 : top;
    f[r] = exp(m[r] - ref);
    m[r] = top;
    float weight = exp(x - ref);
    l[r] = l[r] * f[r] + weight;
    if (DROPOUT) weight = (kept[r] >> (key & 31) & 1u) != 0u ? weight * dropout_scale : 0.0;
    s[r] = weight;
  }
}

// O = f O + P V.
void accumulate() {
  [[unroll]] for (int c = 0; c < DVP; c += COLS_AT_ONCE) {
    vec2 x = load_lane_pair(v_row, c, d_v);
    [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) {
      float v = subgroupShuffle((e & 1) == 0 ? x.x : x.y, e >> 1);
      [[unroll]] for (int r = 0; r < ROWS; ++r) o[r * DVP + c + e] = o[r * DVP + c + e] * f[r] + s[r] * v;
    }
  }
}

void store_result() {
  uint64_t o_base = query_rows(p.out_, p.out_stride, b, h);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (row0 + r < q_len) {
      float inverse = l[r] == 0.0 ? 0.0 : 1.0 / l[r];  // a row that sees nothing is 0
      uint64_t row = o_base + uint64_t(int64_t(row0 + r) * p.out_stride[2] * ELEM_BYTES);
      [[unroll]] for (int d = 0; d < DVP; d += 2)
        store_row_pair(row, d, d_v, vec2(o[r * DVP + d], o[r * DVP + d + 1]) * inverse);
      F32Ref(p.logsumexp + uint64_t(stats_index(bh, row0 + r)) * 4).v = l[r] == 0.0 ? NEG_INF : m[r] + log(l[r]);
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
  int k_len = key_count();
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
  [[dont_unroll]] for (key = begin; key < end; ++key) {
    if (BLOCK_MASK && (key == begin || key % max(MASK_KEYS, 1) == 0)) {
      const int to = next_kept_key(mask_of(b, h), first, min(first + W * ROWS, q_len) - 1, key, end);
      if (to >= end) break;
      k_row += k_step * uint64_t(uint(to - key));
      v_row += v_step * uint64_t(uint(to - key));
      key = to;
    }
    if (PAGED) {
      k_row = key_rows(p.key, p.key_stride, b, kv_h) + key_offset(p.key_stride[0], int64_t(k_step), key);
      v_row = key_rows(p.value, p.value_stride, b, kv_h) + key_offset(p.value_stride[0], int64_t(v_step), key);
    }
    scores();
    online_softmax();
    accumulate();
    k_row += k_step;
    v_row += v_step;
  }
  store_result();
}
