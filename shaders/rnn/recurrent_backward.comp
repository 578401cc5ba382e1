#pragma aule params ring
// The gradients of one step's gates (recurrent_forward.comp, whose KEEPS it reads), from that of its state:
//   dh = grad_out of the step + what later steps left in grad_h and in `sums`, their gates' gradients @ weights
//   LSTM: dc += dh * o * (1 - tanh(c)^2), from which follow those of i, f, g, o;  then dc *= f
//   GRU:  those of r, z, n;  the hidden side's differs in n by the factor r;      grad_h = dh * z
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
  uint64_t grad_h, grad_c;       // float32 [directions][batch][hidden]
  uint64_t gates, inner, before;
  uint64_t grad_gates, grad_hidden_gates;  // [directions][rows][GATES * hidden]; the second of a GRU
  int64_t grad_row, grad_direction;
  uint64_t rows;
  uint first_row[2], running[2], summed[2];
  uint directions, batch, hidden, visited, sums_rows;
};
#include "common/params.glsl"
#include "gates.glsl"
#include "rnn/recurrent.glsl"

void main() {
  const uint64_t id = linear_invocation();
  const uint u = uint(id % p.hidden), b = uint(id / p.hidden % p.visited), d = uint(id / p.hidden / p.visited);
  if (d >= p.directions || b >= max(p.running[d], p.summed[d])) return;
  const uint64_t own = (uint64_t(d) * p.batch + b) * p.hidden + u;
  float dh = 0.0;
  if (b < p.summed[d]) {
    const uint64_t split = uint64_t(p.directions) * p.sums_rows * p.hidden;
    dh = sum_of_splits(p.sums, (uint64_t(d) * p.sums_rows + b) * p.hidden + u, split);
  }
  if (CELL == GRU || b >= p.summed[d]) dh += F32Ref(p.grad_h + own * 4).v;
  if (b >= p.running[d]) {
    F32Ref(p.grad_h + own * 4).v = dh;
  } else {
    const uint64_t row = uint64_t(d) * p.rows + p.first_row[d] + b;
    const uint64_t gate_at = row * GATES * p.hidden + u;
    if (HAS_GRAD_OUT) {
      const int64_t at = int64_t(p.first_row[d] + b) * p.grad_row + int64_t(d) * p.grad_direction + int64_t(u);
      dh += load_float(p.grad_out, uint64_t(at), DTYPE);
    }
    float x[4], grad[4];
    [[unroll]] for (uint g = 0; g < GATES; ++g) x[g] = load_float(p.gates, gate_at + g * p.hidden, DTYPE);
    if (CELL == LSTM) {
      const float i = x[0], f = x[1], g = x[2], o = x[3];
      const float c_before = F32Ref(p.inner + (row * p.hidden + u) * 4).v, t = tanh_(f * c_before + i * g);
      const float dc = F32Ref(p.grad_c + own * 4).v + dh * o * (1.0 - t * t);
      grad[0] = dc * g * i * (1.0 - i);
      grad[1] = dc * c_before * f * (1.0 - f);
      grad[2] = dc * i * (1.0 - g * g);
      grad[3] = dh * t * o * (1.0 - o);
      F32Ref(p.grad_c + own * 4).v = dc * f;
    } else if (CELL == GRU) {
      const float r = x[0], z = x[1], n = x[2];
      const float hidden_n = F32Ref(p.inner + (row * p.hidden + u) * 4).v;
      const float dn = dh * (1.0 - z) * (1.0 - n * n);
      grad[0] = dn * hidden_n * r * (1.0 - r);
      grad[1] = dh * (load_float(p.before, row * p.hidden + u, DTYPE) - n) * z * (1.0 - z);
      grad[2] = dn;
      [[unroll]] for (uint g = 0; g < GATES; ++g)
        store_float(p.grad_hidden_gates, gate_at + g * p.hidden, DTYPE, g == 2 ? dn * r : grad[g]);
      F32Ref(p.grad_h + own * 4).v = dh * z;
    } else {
      grad[0] = CELL == TANH ? dh * (1.0 - x[0] * x[0]) : (x[0] > 0.0 ? dh : 0.0);
    }
    [[unroll]] for (uint g = 0; g < GATES; ++g) store_float(p.grad_gates, gate_at + g * p.hidden, DTYPE, grad[g]);
  }
}
