#pragma aule params ring
// FlashAttention forward for devices without matrix units: O = softmax(Q K^T) V by online softmax (FlashAttention-2, Dao
// 2023). Workgroup (block of 16*R queries, split of the value columns, b, h); key tiles of 32 pass through shared memory.
// Heavy causal blocks come first.
#include "attention/tiles.glsl"

void main() {
  int blocks = (p.q_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = blocks - 1 - int(group % uint(blocks));
  int column = int(group / uint(blocks)) % SPLITS * COLUMNS;
  int bh = int(group / uint(blocks)) / SPLITS;
  int b = bh / p.heads, h = bh % p.heads, kv_h = h / (p.heads / p.kv_heads);
  int first = block * BM, row0 = first + ty() * R;
  begin_sequence(b);
  int q_len = query_count(), k_len = key_count(), d_qk = p.head_dim, d_v = p.v_dim;
  if (RAGGED && first >= q_len) return;
  int shift = diagonal_shift(), left = p.left, right = p.right;
  float scale = p.scale, softcap = p.softcap;
  uint64_t q = query_rows(p.query, p.query_stride, b, h);
  uint64_t k = key_rows(p.key, p.key_stride, b, kv_h), v = key_rows(p.value, p.value_stride, b, kv_h);
  int64_t q_step = p.query_stride[2], k_step = p.key_stride[2], v_step = p.value_stride[2];
  uint64_t bias = 0;
  int64_t bias_q = 0, bias_k = 0;
  if (BIAS_DT >= 0) {
    bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
    bias_q = p.bias_stride[2];
    bias_k = p.bias_stride[3];
  }
  Philox philox;
  if (DROPOUT) philox = philox_begin(p.seed, p.offset, p.state);

  ResultTile o;
  float m[R], l[R];
  [[unroll]] for (int i = 0; i < R * PER_LANE; ++i) o.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < R; ++i) {
    m[i] = NEG_INF;
    l[i] = 0.0;  // this invocation's columns only, summed over x at the end
  }

  int end = keys_end(min(first + BM, q_len) - 1);
  [[dont_unroll]] for (int key0 = keys_begin(first); key0 < end; key0 += BN) {
    ScoreTile s;
    page_stride = p.key_stride[0];
    scores(s, q, q_step, first, q_len, k, k_step, key0, end, d_qk);
    [[unroll]] for (int i = 0; i < R; ++i) {
      int row = row0 + i;
      float top = NEG_INF;
      [[unroll]] for (int j = 0; j < 4; ++j) {
        int key = key0 + tx() * 4 + j, seen = key - row - shift;
        bool inside = key < end && row < q_len;
        float x = s.v[i * 4 + j] * scale;
        if (SOFTCAP) x = softcap * capped_tanh(x / softcap);
        if (BIAS_DT >= 0 && inside) x += load_bias(bias + bias_bytes() * uint64_t(int64_t(row) * bias_q + int64_t(key) * bias_k));
        x = inside && seen >= -left && seen <= right ? x : NEG_INF;
        s.v[i * 4 + j] = x;
        top = max(top, x);
      }
      partial[(ty() * R + i) * 8 + tx()] = top;
    }
    barrier();  // the maxima of a row's 8 invocations are written; the next tile's first barrier frees them
    [[unroll]] for (int i = 0; i < R; ++i) {
      float top = m[i];
      [[unroll]] for (int j = 0; j < 8; ++j) top = max(top, partial[(ty() * R + i) * 8 + j]);
      float ref = top == NEG_INF ? 0.0 : top, f = exp(m[i] - ref);
      m[i] = top;
      l[i] *= f;
      [[unroll]] for (int j = 0; j < 4; ++j) {
        float weight = exp(s.v[i * 4 + j] - ref);
        l[i] += weight;
        s.v[i * 4 + j] = weight;
      }
      [[unroll]] for (int j = 0; j < PER_LANE; ++j) o.v[i * PER_LANE + j] *= f;
    }
    if (DROPOUT) {
      [[unroll]] for (int j = 0; j < 4; ++j) {
        int key = key0 + tx() * 4 + j;
        uvec4 draw = dropout_draw(philox, bh, row0, key, q_len);
        [[unroll]] for (int i = 0; i < R; ++i)
          s.v[i * 4 + j] = dropout_keeps(draw, row0 + i, key, dropout_threshold()) ? s.v[i * 4 + j] * p.dropout_scale : 0.0;
      }
    }
    page_stride = p.value_stride[0];
    accumulate(o, s, v, v_step, key0, end, column, d_v);
  }

  barrier();  // `partial` has been read
  [[unroll]] for (int i = 0; i < R; ++i) partial[(ty() * R + i) * 8 + tx()] = l[i];
  barrier();  // the sums of a row's 8 invocations are written
  RowFactor inverse;
  [[unroll]] for (int i = 0; i < R; ++i) {
    float sum = 0.0;
    [[unroll]] for (int j = 0; j < 8; ++j) sum += partial[(ty() * R + i) * 8 + j];
    inverse.v[i] = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
    if (column == 0 && tx() == 0 && row0 + i < q_len)
      F32Ref(p.logsumexp + uint64_t(stats_index(bh, row0 + i)) * 4).v = sum == 0.0 ? NEG_INF : m[i] + log(sum);
  }
  store_result(o, query_rows(p.out_, p.out_stride, b, h), p.out_stride[2], first, q_len, column, d_v, inverse);
}
