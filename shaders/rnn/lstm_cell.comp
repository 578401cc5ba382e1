#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// One step of an LSTM cell (Hochreiter and Schmidhuber 1997, with forget gate), gates in PyTorch's order i, f, g, o:
//   forward:  a = input_gates + hidden_gates + input_bias + hidden_bias          [B, 4H]
//             i, f, o = sigmoid(a_i, a_f, a_o), g = tanh(a_g);  cy = f * cx + i * g;  hy = o * tanh(cy)
//             workspace = (i, f, g, o), kept for the backward
//   backward: grad_gates [B, 4H] and grad_cx from grad_hy, grad_cy, cx, cy and the workspace
// One invocation per (batch, hidden) element; rows are contiguous.
#include "common/dtype.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
struct Params {
  uint64_t input_gates, hidden_gates, input_bias, hidden_bias;  // forward; biases may be 0
  // backward: hy and cy are the gradients (or 0), cy_value below
  uint64_t cx, hy, cy, workspace;
  uint64_t cy_value, grad_gates, grad_cx;
  uint n, hidden;
};
#include "common/params.glsl"
#include "gates.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  uint b = uint(id) / p.hidden, h = uint(id) % p.hidden;
  uint64_t row = uint64_t(b) * uint64_t(4u * p.hidden) + uint64_t(h);
#ifdef DIRECTION_forward
  REAL a[4];
  for (int g = 0; g < 4; ++g) {
    uint64_t at = row + uint64_t(uint(g) * p.hidden);
    a[g] = LOAD(p.input_gates, at, DTYPE) + LOAD(p.hidden_gates, at, DTYPE);
    if (p.input_bias != uint64_t(0)) {
      uint64_t unit = uint64_t(uint(g) * p.hidden + h);
      a[g] += LOAD(p.input_bias, unit, DTYPE) + LOAD(p.hidden_bias, unit, DTYPE);
    }
    a[g] = g == 2 ? tanh_(a[g]) : sigmoid(a[g]);
    STORE(p.workspace, at, DTYPE, a[g]);
  }
  REAL c = a[1] * LOAD(p.cx, id, DTYPE) + a[0] * a[2];
  STORE(p.cy, id, DTYPE, c);
  STORE(p.hy, id, DTYPE, a[3] * tanh_(c));
#else
  REAL a[4];
  for (int g = 0; g < 4; ++g) a[g] = LOAD(p.workspace, row + uint64_t(uint(g) * p.hidden), DTYPE);
  REAL gh = p.hy != uint64_t(0) ? LOAD(p.hy, id, DTYPE) : REAL(0);
  REAL gc = p.cy != uint64_t(0) ? LOAD(p.cy, id, DTYPE) : REAL(0);
  REAL t = tanh_(LOAD(p.cy_value, id, DTYPE));
  gc += gh * a[3] * (1.0 - t * t);
  REAL grad[4] = REAL[4](gc * a[2] * a[0] * (1.0 - a[0]), gc * LOAD(p.cx, id, DTYPE) * a[1] * (1.0 - a[1]),
      gc * a[0] * (1.0 - a[2] * a[2]),
                           gh * t * a[3] * (1.0 - a[3]));
  for (int g = 0; g < 4; ++g) STORE(p.grad_gates, row + uint64_t(uint(g) * p.hidden), DTYPE, grad[g]);
  STORE(p.grad_cx, id, DTYPE, gc * a[1]);
#endif
}
