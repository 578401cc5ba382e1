#pragma aule params ring
// FlashAttention backward for devices without matrix units, dQ (and the full bias gradient when asked):
//   P = exp(S - LSE);  dP = dropout(dO V^T);  dS = P * (dP - delta);  dQ = scale * dS K;  dBias = dS
// The tile map is that of flash_attn_fwd. Every gradient element has one writer and one order of summation: no atomics.
#include "attention/tiles.glsl"

layout(constant_id = 9) const bool GRAD_BIAS = false;  // grad_bias: zeroed float32 [B, H, Lq, Lk]

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
  uint64_t q = query_rows(p.query, p.query_stride, b, h), g = query_rows(p.grad_out, p.grad_out_stride, b, h);
  uint64_t k = key_rows(p.key, p.key_stride, b, kv_h), v = key_rows(p.value, p.value_stride, b, kv_h);
  int64_t q_step = p.query_stride[2], g_step = p.grad_out_stride[2], k_step = p.key_stride[2], v_step = p.value_stride[2];
  uint64_t bias = 0;
  int64_t bias_q = 0, bias_k = 0;
  if (BIAS_DT >= 0) {
    bias = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] + int64_t(h) * p.bias_stride[1]);
    bias_q = p.bias_stride[2];
    bias_k = p.bias_stride[3];
  }
  Philox philox;
  if (DROPOUT) philox = philox_begin(p.seed, p.offset, p.state);

  ResultTile dq;
  float lse[R], delta[R];
  [[unroll]] for (int i = 0; i < R * PER_LANE; ++i) dq.v[i] = 0.0;
  [[unroll]] for (int i = 0; i < R; ++i) {
    uint64_t stats = p.stats + uint64_t(stats_index(bh, min(row0 + i, q_len - 1))) * 8;
    lse[i] = F32Ref(stats).v;
    delta[i] = F32Ref(stats + 4).v;
  }

  int begin = keys_begin(first), end = keys_end(min(first + BM, q_len) - 1);
  bool again = sums_delta(end - begin, BM);
  float sum[R];
  [[unroll]] for (int i = 0; i < R; ++i) sum[i] = 0.0;
  [[dont_unroll]] for (int pass = again ? 0 : 1; pass < 2; ++pass) {  // 0: delta; 1: dQ
    [[dont_unroll]] for (int key0 = begin; key0 < end; key0 += BN) {
      ScoreTile s, dp;
      scores(s, q, q_step, first, q_len, k, k_step, key0, end, d_qk);
      scores(dp, g, g_step, first, q_len, v, v_step, key0, end, d_v);
      [[unroll]] for (int j = 0; j < 4; ++j) {
        int key = key0 + tx() * 4 + j;
        uvec4 draw;
        if (DROPOUT) draw = dropout_draw(philox, bh, row0, key, q_len);
        [[unroll]] for (int i = 0; i < R; ++i) {
          int row = row0 + i, seen = key - row - shift;
          bool inside = key < end && row < q_len;
          float x = s.v[i * 4 + j] * scale, slope = 1.0;
          if (SOFTCAP) {
            float t = capped_tanh(x / softcap);
            x = softcap * t;
            slope = 1.0 - t * t;
          }
          if (BIAS_DT >= 0 && inside) x += load_bias(bias + bias_bytes() * uint64_t(int64_t(row) * bias_q + int64_t(key) * bias_k));
          bool visible = inside && seen >= -left && seen <= right && x > NEG_INF;
          float prob = visible ? exp(x - lse[i]) : 0.0, gp = dp.v[i * 4 + j];
          if (DROPOUT) gp = dropout_keeps(draw, row, key, dropout_threshold()) ? gp * p.dropout_scale : 0.0;
          if (DT != AULE_DT_F32) sum[i] += prob * gp;
          float ds = prob * (gp - delta[i]);
          if (GRAD_BIAS && pass == 1 && inside && column == 0) F32Ref(p.grad_bias + uint64_t((int64_t(bh) * q_len + row) * k_len + key) * 4).v = ds;
          s.v[i * 4 + j] = ds * slope;
        }
      }
      if (pass == 1) accumulate(dq, s, k, k_step, key0, end, column, d_qk);
    }
    if (pass == 0) {
      [[unroll]] for (int i = 0; i < R; ++i) partial[(ty() * R + i) * 8 + tx()] = sum[i];
      barrier();  // the sums of a row's eight invocations are written
      [[unroll]] for (int i = 0; i < R; ++i) {
        int64_t index = stats_index(bh, min(row0 + i, q_len - 1));
        delta[i] = delta_of_logsumexp(index);
        [[unroll]] for (int x = 0; x < 8; ++x) delta[i] += partial[(ty() * R + i) * 8 + x];
        if (tx() == 0 && column == 0 && row0 + i < q_len) F32Ref(p.stats + uint64_t(index) * 8 + 4).v = delta[i];
      }
    }
  }

  RowFactor factor;
  [[unroll]] for (int i = 0; i < R; ++i) factor.v[i] = scale;
  store_result(dq, query_rows(p.grad_query, p.grad_query_stride, b, h), p.grad_query_stride[2], first, q_len, column, d_qk, factor);
}
