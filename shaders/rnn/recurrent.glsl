// Shared by the kernels of whole recurrent layers. Rows of a step: the first running[d] sequences of the batch, at
// first_row[d] of all rows (time by time, as packed sequences lie); d counts directions, of which the second goes from
// the last time to the first. The file that includes this has the constant CELL.
#include "rnn/gates.glsl"
#define CELL_KIND(code, name) const int CELL_##name = code;
#include "rnn/cells.def"
const uint GATES = CELL == CELL_lstm ? 4 : CELL == CELL_gru ? 3 : 1;

// tanh, relu: h = f(x + s)      GRU: r, z = sigmoid(x + s);  n = tanh(x_n + r * s_n);  h = n + z * (before - n)
// LSTM: i, f, o = sigmoid(x + s);  g = tanh(x_g + s_g);  c = f * c + i * g;  h = o * tanh(c)
// x is the input's side, s the state's. x becomes the activated gates. Returns h.
REAL cell_forward(inout REAL x[4], REAL s[4], REAL before, inout REAL c) {
  if (CELL == CELL_lstm) {
    [[unroll]] for (uint g = 0; g < 4; ++g) x[g] = g == 2 ? tanh_(x[g] + s[g]) : sigmoid(x[g] + s[g]);
    c = x[1] * c + x[0] * x[2];
    return x[3] * tanh_(c);
  }
  if (CELL == CELL_gru) {
    x[0] = sigmoid(x[0] + s[0]);
    x[1] = sigmoid(x[1] + s[1]);
    x[2] = tanh_(x[2] + x[0] * s[2]);
    return x[2] + x[1] * (before - x[2]);
  }
  x[0] += s[0];
  x[0] = CELL == CELL_tanh ? tanh_(x[0]) : x[0] < 0.0 ? REAL(0) : x[0];  // a NaN stays
  return x[0];
}

// A value that the backward takes of a step beside its gates: an LSTM's c before it, a GRU's s_n.
REAL kept_inner(REAL s[4], REAL c_before) { return CELL == CELL_gru ? s[2] : c_before; }

// The gradients of x from that of h, dh. Of an LSTM dc becomes that of c before the step. Those of s are the same, but
// for a GRU's n: there times r. Returns the part of dh that reaches the state before without a weight.
REAL cell_backward(REAL x[4], REAL inner, REAL before, REAL dh, inout REAL dc, out REAL grad[4]) {
  if (CELL == CELL_lstm) {
    const REAL t = tanh_(x[1] * inner + x[0] * x[2]);
    const REAL of_c = dc + dh * x[3] * (1.0 - t * t);
    grad[0] = of_c * x[2] * x[0] * (1.0 - x[0]);
    grad[1] = of_c * inner * x[1] * (1.0 - x[1]);
    grad[2] = of_c * x[0] * (1.0 - x[2] * x[2]);
    grad[3] = dh * t * x[3] * (1.0 - x[3]);
    dc = of_c * x[1];
    return REAL(0);
  }
  if (CELL == CELL_gru) {
    grad[2] = dh * (1.0 - x[1]) * (1.0 - x[2] * x[2]);
    grad[0] = grad[2] * inner * x[0] * (1.0 - x[0]);
    grad[1] = dh * (before - x[2]) * x[1] * (1.0 - x[1]);
    return dh * x[1];
  }
  grad[0] = CELL == CELL_tanh ? dh * (1.0 - x[0] * x[0]) : (x[0] > 0.0 ? dh : REAL(0));
  return REAL(0);
}
