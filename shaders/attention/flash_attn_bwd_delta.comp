#pragma aule axis LANES 1 8
#pragma aule params ring
// Backward, first pass: delta[i] = sum_d dO[i,d] * O[i,d] - dLSE[i], stored beside the row's log-sum-exp, so the next
// passes fetch both with one load. dQ may sum delta again: sums_delta() in attention.glsl. A row that saw nothing has
// log-sum-exp -inf. Its entry is +inf, so P becomes 0.
//
//   LANES 1  an invocation has a row: software devices
//   LANES 8  eight lanes have a row, summed through shared memory
// Deterministic.
#include "attention/parts/attention.glsl"

// 16-bit rows are aligned: 16 bytes a load.
layout(constant_id = FAMILY_CONSTANTS) const bool VEC8 = false;

#if LANES > 1
shared float partial[256];
#endif

void main() {
  int local = int(gl_LocalInvocationID.x), lane = local % LANES;
  int64_t index = int64_t(linear_group()) * (LOCAL / LANES) + local / LANES;
  int64_t rows = int64_t(p.groups) * p.q_len;  // here `groups` is B * H
  int64_t safe = lesser(index, rows - 1);
  int row = int(safe % p.q_len), bh = int(safe / p.q_len), b = bh / p.heads, h = bh % p.heads;
  uint64_t o_row = p.out_ + uint64_t((int64_t(b) * p.out_stride[0] + int64_t(h) * p.out_stride[1] +
      int64_t(row) * p.out_stride[2]) * ELEM_BYTES);
  uint64_t g_row = p.grad_out + uint64_t((int64_t(b) * p.grad_out_stride[0] + int64_t(h) * p.grad_out_stride[1] +
      int64_t(row) * p.grad_out_stride[2]) * ELEM_BYTES);
  int d_v = p.v_dim;
  float sum = 0.0;
  if (VEC8) {
    [[dont_unroll]] for (int d = lane * 8; d < d_v; d += LANES * 8) {
      const uvec4 x = Vec16bRef(o_row + uint64_t(d) * 2).v, y = Vec16bRef(g_row + uint64_t(d) * 2).v;
      [[unroll]] for (int i = 0; i < 4; ++i) sum += dot(pair(x[i]), pair(y[i]));
    }
  } else [[dont_unroll]] for (int d = lane; d < d_v; d += LANES) sum += load_float(o_row, d, DTYPE) *
      load_float(g_row, d, DTYPE);
#if LANES > 1
  partial[local] = sum;
  barrier();  // the row's first lane reads what its neighbours wrote
  if (lane == 0) {
    sum = 0.0;
    for (int i = 0; i < LANES; ++i) sum += partial[local + i];
  }
#endif
  if (lane == 0 && index < rows) {
    if (p.grad_logsumexp != uint64_t(0)) sum -= F32Ref(p.grad_logsumexp + uint64_t(index) * 4).v;
    float lse = F32Ref(p.logsumexp + uint64_t(index) * 4).v;
    const uint64_t stats = p.stats + uint64_t(index) * STATS_BYTES;
    F32Ref(stats).v = lse == NEG_INF ? POS_INF : lse;
    F32Ref(stats + 4).v = sum;
    if (TWO_PARTS) F32Ref(stats + 8).v = 0.0;
  }
}
