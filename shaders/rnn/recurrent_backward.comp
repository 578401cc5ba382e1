#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The gradients of one step's gates (recurrent_forward.comp, whose KEEPS it reads), from that of its state:
//   dh = grad_out of the step + what later steps left in grad_h and in `sums`, their gates' gradients @ weights
// Sequences that have ended, of a direction that goes backwards, get grad_h = dh: the gradient of their first state.
// One invocation per element of the state. sums: [SPLITS][directions][sums_rows][hidden], of which the first
// `summed` rows count.
#include "common/dtype.glsl"
layout(local_size_x = 128) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int SUMS_DTYPE = 0;
layout(constant_id = 2) const int CELL = 0;
layout(constant_id = 3) const int SPLITS = 1;
layout(constant_id = 4) const bool HAS_GRAD_OUT = true;
struct Params {
  uint64_t sums, grad_out;       // grad_out: rows grad_row apart, directions grad_direction
  uint64_t grad_h, grad_c;       // REAL [directions][batch][hidden]
  uint64_t gates, inner, before;
  uint64_t grad_gates, grad_hidden_gates;  // [directions][rows][GATES * hidden]; the second of a GRU
  int64_t grad_row, grad_direction;
  uint64_t rows;
  uint first_row[2], running[2], summed[2];
  uint directions, batch, hidden, visited, sums_rows;
};
#include "common/params.glsl"
#include "rnn/recurrent.glsl"
#include "rnn/split_sums.glsl"

void main() {
  const uint64_t id = linear_invocation();
  const uint u = uint(id % p.hidden), b = uint(id / p.hidden % p.visited), d = uint(id / p.hidden / p.visited);
  if (d >= p.directions || b >= max(p.running[d], p.summed[d])) return;
  const uint64_t own = (uint64_t(d) * p.batch + b) * p.hidden + u;
  REAL dh = REAL(0);
  if (b < p.summed[d]) {
    const uint64_t split = uint64_t(p.directions) * p.sums_rows * p.hidden;
    dh = sum_of_splits(p.sums, (uint64_t(d) * p.sums_rows + b) * p.hidden + u, split);
  }
  if (CELL == CELL_gru || b >= p.summed[d]) dh += LOAD(p.grad_h, own, REAL_DTYPE);
  if (b >= p.running[d]) {
    STORE(p.grad_h, own, REAL_DTYPE, dh);
  } else {
    const uint64_t row = uint64_t(d) * p.rows + p.first_row[d] + b;
    const uint64_t gate_at = row * GATES * p.hidden + u;
    if (HAS_GRAD_OUT) {
      const int64_t at = int64_t(p.first_row[d] + b) * p.grad_row + int64_t(d) * p.grad_direction + int64_t(u);
      dh += LOAD(p.grad_out, uint64_t(at), DTYPE);
    }
    REAL x[4], grad[4];
    [[unroll]] for (uint g = 0; g < GATES; ++g) x[g] = LOAD(p.gates, gate_at + g * p.hidden, DTYPE);
    const REAL inner = CELL == CELL_lstm || CELL == CELL_gru ? LOAD(p.inner, row * p.hidden + u, REAL_DTYPE) : REAL(0);
    const REAL before = CELL == CELL_gru ? LOAD(p.before, row * p.hidden + u, DTYPE) : REAL(0);
    REAL dc = CELL == CELL_lstm ? LOAD(p.grad_c, own, REAL_DTYPE) : REAL(0);
    const REAL direct = cell_backward(x, inner, before, dh, dc, grad);
    if (CELL == CELL_lstm) STORE(p.grad_c, own, REAL_DTYPE, dc);
    if (CELL == CELL_gru) {
      STORE(p.grad_h, own, REAL_DTYPE, direct);
      [[unroll]] for (uint g = 0; g < GATES; ++g)
        STORE(p.grad_hidden_gates, gate_at + g * p.hidden, DTYPE, g == 2 ? grad[g] * x[0] : grad[g]);
    }
    [[unroll]] for (uint g = 0; g < GATES; ++g) STORE(p.grad_gates, gate_at + g * p.hidden, DTYPE, grad[g]);
  }
}
