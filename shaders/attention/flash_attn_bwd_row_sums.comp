#pragma aule params ring
// Backward with a bias of numbers, second pass: rows whose log-sum-exp is LARGE or more in magnitude. There the float32
// log-sum-exp has few bits left for the logarithm of the sum, at 1e9 none, and P = exp(S - LSE) would be off by the
// whole row's sum. Scores are made once more, and the row's entry becomes two numbers of the same scores:
//   stats = {m, delta, log(sum_j exp(S[j] - m))},  m = max_j S[j]
// Eight lanes have a row and take its keys in turn; their sums meet in shared memory. Rows below LARGE leave at once:
// what their log-sum-exp lost is 2^-17 at most. Deterministic. What it costs: docs/ladders/flash_attn_bwd_row_sums.md
#include "attention/parts/attention.glsl"

// Rows are aligned and whole in eight elements: 16 bytes a load.
layout(constant_id = FAMILY_CONSTANTS) const bool VEC8 = false;
const float LARGE = 256.0;
const int LANES = 8;
shared vec2 partial[LOCAL];  // {maximum, sum} of each lane's keys

float product(uint64_t a, uint64_t b) {
  const int dim = p.head_dim;
  float sum = 0.0;
  [[dont_unroll]] for (int d = 0; d < dim; d += 64) {  // the iterations of a key count where a driver ends long loops
    [[unroll]] for (int e = d; e < d + 64; e += 8) {
      if (VEC8) {
        if (e < dim && DTYPE == AULE_DT_F32) {
          [[unroll]] for (int i = e * 4; i < e * 4 + 32; i += 16)
            sum += dot(F32x4Ref(a + uint64_t(i)).v, F32x4Ref(b + uint64_t(i)).v);
        } else if (e < dim) {
          const uvec4 x = Vec16bRef(a + uint64_t(e) * 2).v, y = Vec16bRef(b + uint64_t(e) * 2).v;
          [[unroll]] for (int i = 0; i < 4; ++i) sum += dot(pair(x[i]), pair(y[i]));
        }
      } else {
        [[unroll]] for (int i = e; i < e + 8; ++i)
          if (i < dim) sum += load_float(a, i, DTYPE) * load_float(b, i, DTYPE);
      }
    }
  }
  return sum;
}

void main() {
  const int local = int(gl_LocalInvocationID.x), lane = local % LANES;
  const int64_t index = int64_t(linear_group()) * (LOCAL / LANES) + local / LANES;
  const int64_t rows = int64_t(p.groups) * p.q_len;  // here `groups` is B * H
  const int64_t safe = lesser(index, rows - 1);
  const int row = int(safe % p.q_len), bh = int(safe / p.q_len), b = bh / p.heads, h = bh % p.heads;
  const uint64_t stats = p.stats + uint64_t(safe) * STATS_BYTES;
  const float lse = abs(F32Ref(stats).v);
  const bool large = lse >= LARGE && lse < POS_INF && index < rows;
  float most = NEG_INF, sum = 0.0;
  if (large) {
    const int begin = keys_begin(row) + lane, end = keys_end(row);
    const uint64_t q_row = query_rows(p.query, p.query_stride, b, h) +
        uint64_t(int64_t(row) * p.query_stride[2] * ELEM_BYTES);
    const uint64_t k_head = key_rows(p.key, p.key_stride, b, h / (p.heads / p.kv_heads));
    const uint64_t bias_row = p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] +
        int64_t(h) * p.bias_stride[1] + int64_t(row) * p.bias_stride[2]);
    [[dont_unroll]] for (int key = begin; key < end; key += LANES) {
      float x = product(q_row, k_head + uint64_t(int64_t(key) * p.key_stride[2] * ELEM_BYTES)) * p.scale;
      if (SOFTCAP) x = p.softcap * capped_tanh(x / p.softcap);
      x += load_bias(bias_row + bias_bytes() * uint64_t(int64_t(key) * p.bias_stride[3]), key - row - p.diagonal);
      if (x > most) {
        sum = sum * exp(most - x) + 1.0;
        most = x;
      } else if (x > NEG_INF) {
        sum += exp(x - most);
      }
    }
  }
  partial[local] = vec2(most, sum);
  barrier();  // the row's first lane reads what its neighbours wrote
  if (lane != 0 || !large) return;
  for (int i = 1; i < LANES; ++i) most = max(most, partial[local + i].x);
  sum = 0.0;
  for (int i = 0; i < LANES; ++i) sum += partial[local + i].y * exp(partial[local + i].x - most);
  if (sum > 0.0) {  // false of NaN
    F32Ref(stats).v = most;
    F32Ref(stats + 8).v = log(sum);
  }
}
