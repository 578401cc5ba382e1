// The gradients of `count` steps' gates and of the states, from step first + count - 1 to step `first`, in one dispatch
// (recurrent_backward.comp; who owns what: resident_forward.comp):
//   grad_gates = those of cell(...) from dh, dc;   dh = grad_hidden_gates @ weights + what reaches the state directly
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int CELL = 0;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint HIDDEN = 4;  // as resident_forward.comp's
layout(constant_id = 4) const bool HAS_GRAD_OUT = true;
layout(local_size_x = 512) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t grad_out, weights;  // grad_out: rows grad_row apart, directions grad_direction; [directions][...][HIDDEN]
  uint64_t grad_h, grad_c;     // float32 [directions][batch][HIDDEN]
  uint64_t gates, inner, before;
  uint64_t grad_gates, grad_hidden_gates;
  int64_t grad_row, grad_direction;
  uint64_t rows;
  uint times, first, count, directions, batch;
};
#include "common/params.glsl"
#include "rnn/recurrent.glsl"
const uint LOCAL = 512, K = GATES * HIDDEN, N = HIDDEN;
#include "rnn/resident.glsl"

float x[4], inner = 0.0, before = 0.0, grad_out = 0.0;  // of the step that comes next
uint at;
uint64_t row;
void fetch(uint step, uint b, uint d, uint u) {
  at = (d == 0 ? step : p.times - 1 - step) * p.batch + b;
  row = uint64_t(d) * p.rows + at;
  [[unroll]] for (uint g = 0; g < GATES; ++g) x[g] = load_float(p.gates, row * K + g * HIDDEN + u, DTYPE);
  if (CELL == CELL_lstm || CELL == CELL_gru) inner = F32Ref(p.inner + (row * HIDDEN + u) * 4).v;
  if (CELL == CELL_gru) before = load_float(p.before, row * HIDDEN + u, DTYPE);
  if (HAS_GRAD_OUT)
    grad_out = load_float(p.grad_out, uint64_t(int64_t(at) * p.grad_row + int64_t(d) * p.grad_direction + int64_t(u)),
        DTYPE);
}

void main() {
  const uint t = gl_LocalInvocationID.x, blocks = (p.batch + ROWS - 1) / ROWS;
  const uint d = linear_group() / blocks, r = t / HIDDEN, u = t % HIDDEN;
  if (d >= p.directions) return;  // the whole workgroup leaves
  const uint b = linear_group() % blocks * ROWS + r;
  const bool owns = r < ROWS && b < p.batch;
  begin(p.weights + uint64_t(d) * (K * N) * (DTYPE == AULE_DT_F32 ? 4 : 2));
  const uint64_t own = (uint64_t(d) * p.batch + b) * HIDDEN + u;
  float dh = 0.0, dc = 0.0;
  if (owns) {
    dh = F32Ref(p.grad_h + own * 4).v;
    if (CELL == CELL_lstm) dc = F32Ref(p.grad_c + own * 4).v;
  }
  if (owns) fetch(p.first + p.count - 1, b, d, u);
  [[dont_unroll]] for (uint i = 1; i <= p.count; ++i) {
    float direct = 0.0;
    if (owns) {
      float grad[4];
      direct = cell_backward(x, inner, before, dh + grad_out, dc, grad);
      [[unroll]] for (uint g = 0; g < GATES; ++g) {
        store_float(p.grad_gates, row * K + g * HIDDEN + u, DTYPE, grad[g]);
        if (CELL == CELL_gru && g == 2) grad[g] *= x[0];
        if (CELL == CELL_gru) store_float(p.grad_hidden_gates, row * K + g * HIDDEN + u, DTYPE, grad[g]);
        vectors[r * K_PADDED + g * HIDDEN + u] = grad[g];
      }
      if (i < p.count) fetch(p.first + p.count - 1 - i, b, d, u);
    }
    barrier();  // the gradients are written, the partial sums of the step before read
    multiply();
    barrier();  // the partial sums are written, the gradients read
    if (owns) dh = direct + product(r, u);
  }
  if (owns) {
    F32Ref(p.grad_h + own * 4).v = dh;
    if (CELL == CELL_lstm) F32Ref(p.grad_c + own * 4).v = dc;
  }
}
