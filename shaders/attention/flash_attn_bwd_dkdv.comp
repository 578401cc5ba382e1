#pragma aule params ring
// FlashAttention backward for devices without matrix units, dK and dV:
//   dV = dropout(P)^T dO;  dK = scale * dS^T Q;  P and dS as in flash_attn_bwd_dq
// Workgroup (block of 16*R keys, split of the columns of both, b, kv head): the scores are made transposed, keys as rows,
// so dK and dV stay with their invocation. The queries of every head that shares the key head pass in tiles of 32.
#include "attention/tiles.glsl"

void main() {
  int blocks = (p.k_len + BM - 1) / BM;
  uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  int block = int(group % uint(blocks));
  int column = int(group / uint(blocks)) % SPLITS * COLUMNS;
  int b_kv = int(group / uint(blocks)) / SPLITS;
  int b = b_kv / p.kv_heads, kv_h = b_kv % p.kv_heads, share = p.heads / p.kv_heads;
  int first = block * BM, key0 = first + ty() * R;
  begin_sequence(b);
  int q_len = query_count(), k_len = key_count(), d_qk = p.head_dim, d_v = p.v_dim;
  if (RAGGED && first >= k_len) return;
  int shift = diagonal_shift(), left = p.left, right = p.right;
  float scale = p.scale, softcap = p.softcap;
  uint64_t k = key_rows(p.key, p.key_stride, b, kv_h), v = key_rows(p.value, p.value_stride, b, kv_h);
  int64_t q_step = p.query_stride[2], g_step = p.grad_out_stride[2], k_step = p.key_stride[2], v_step = p.value_stride[2];
  int64_t bias_q = 0, bias_k = 0;
  if (BIAS_DT >= 0) {
    bias_q = p.bias_stride[2];
    bias_k = p.bias_stride[3];
  }
  Philox philox;
  if (DROPOUT) philox = philox_begin(p.seed, p.offset, p.state);

  ResultTile dk, dv;
  [[unroll]] for (int i = 0; i < R * PER_LANE; ++i) dk.v[i] = dv.v[i] = 0.0;

  int begin = queries_begin(first) & ~3;  // four queries share a dropout draw
  int end = queries_end(min(first + BM, k_len) - 1);
  [[dont_unroll]] for (int head = 0; head < share; ++head) {
    int h = kv_h * share + head, bh = b * p.heads + h;
    uint64_t q = query_rows(p.query, p.query_stride, b, h), g = query_rows(p.grad_out, p.grad_out_stride, b, h);
    uint64_t bias = 0;
    if (BIAS_DT >= 0) bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
    [[dont_unroll]] for (int query0 = begin; query0 < end; query0 += BN) {
      ScoreTile s, dp;
      scores(s, k, k_step, first, k_len, q, q_step, query0, end, d_qk);
      scores(dp, v, v_step, first, k_len, g, g_step, query0, end, d_v);
      float lse[4], delta[4];
      ScoreTile weight;
      [[unroll]] for (int j = 0; j < 4; ++j) {
        uint64_t stats = p.stats + uint64_t(stats_index(bh, min(query0 + tx() * 4 + j, q_len - 1))) * 8;
        lse[j] = F32Ref(stats).v;
        delta[j] = F32Ref(stats + 4).v;
      }
      [[unroll]] for (int i = 0; i < R; ++i) {
        int key = key0 + i;
        uvec4 draw;
        if (DROPOUT) draw = dropout_draw(philox, bh, query0 + tx() * 4, key, q_len);
        [[unroll]] for (int j = 0; j < 4; ++j) {
          int row = query0 + tx() * 4 + j, seen = key - row - shift;
          bool inside = key < k_len && row < end;
          float x = s.v[i * 4 + j] * scale, slope = 1.0;
          if (SOFTCAP) {
            float t = capped_tanh(x / softcap);
            x = softcap * t;
            slope = 1.0 - t * t;
          }
          if (BIAS_DT >= 0 && inside) x += load_bias(bias + bias_bytes() * uint64_t(int64_t(row) * bias_q + int64_t(key) * bias_k));
          bool visible = inside && seen >= -left && seen <= right && x > NEG_INF;
          float prob = visible ? exp(x - lse[j]) : 0.0, gp = dp.v[i * 4 + j];
          weight.v[i * 4 + j] = prob;
          if (DROPOUT) {
            bool keep = dropout_keeps(draw, row, key, dropout_threshold());
            gp = keep ? gp * p.dropout_scale : 0.0;
            weight.v[i * 4 + j] = keep ? prob * p.dropout_scale : 0.0;
          }
          s.v[i * 4 + j] = prob * (gp - delta[j]) * slope;
        }
      }
      accumulate(dv, weight, g, g_step, query0, end, column, d_v);
      accumulate(dk, s, q, q_step, query0, end, column, d_qk);
    }
  }

  RowFactor factor;
  [[unroll]] for (int i = 0; i < R; ++i) factor.v[i] = 1.0;
  store_result(dv, key_rows(p.grad_value, p.grad_value_stride, b, kv_h), p.grad_value_stride[2], first, k_len, column, d_v, factor);
  [[unroll]] for (int i = 0; i < R; ++i) factor.v[i] = scale;
  store_result(dk, key_rows(p.grad_key, p.grad_key_stride, b, kv_h), p.grad_key_stride[2], first, k_len, column, d_qk, factor);
}
