#pragma aule params ring
// One step of a recurrent layer in all its directions (rows and directions: recurrent.glsl):
//   a = input_gates + sums + bias                                            [rows, GATES * hidden]
//   tanh, relu: h = f(a)         GRU: r, z = sigmoid(a);  n = tanh(input_gates_n + r * (sums_n + bias_n))
//   LSTM: i, f, o = sigmoid(a);  g = tanh(a);  c = f * c + i * g;            h = n + z * (h - n)
//         h = o * tanh(c)
// KEEPS: activated gates take the place of input_gates; `inner` has an LSTM's c before the step, a GRU's sums_n +
// bias_n; `before` the state before the step.
// One invocation per element of the state. sums: [SPLITS][directions][sums_rows][GATES * hidden].
#include "common/dtype.glsl"
layout(local_size_x = 128) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int SUMS_DTYPE = 0;
layout(constant_id = 2) const int CELL = 0;
layout(constant_id = 3) const int SPLITS = 1;
layout(constant_id = 4) const bool HAS_BIAS = true;
layout(constant_id = 5) const bool KEEPS = false;
layout(constant_id = 6) const bool HAS_OUT = true;
struct Params {
  uint64_t sums, gates, bias;  // gates: [directions][rows][GATES * hidden]; bias: [directions][GATES * hidden]
  uint64_t h, h_out;  // [directions][batch][state], [directions][batch][hidden]: one tensor without a projection
  uint64_t c;         // float32 [directions][batch][hidden]
  uint64_t out_;      // rows out_row apart, directions out_direction
  uint64_t inner, before;  // float32 [directions][rows][hidden], [directions][rows][state]
  int64_t out_row, out_direction;
  uint64_t rows;
  uint first_row[2], running[2];
  uint directions, batch, hidden, state, sums_rows;
};
#include "common/params.glsl"
#include "gates.glsl"
#include "rnn/recurrent.glsl"

void main() {
  const uint64_t id = linear_invocation();
  const uint u = uint(id % p.hidden), b = uint(id / p.hidden % p.sums_rows), d = uint(id / p.hidden / p.sums_rows);
  if (d >= p.directions || b >= p.running[d]) return;
  const uint64_t row = uint64_t(d) * p.rows + p.first_row[d] + b;
  const uint64_t wide = uint64_t(GATES) * p.hidden;
  const uint64_t sum_at = (uint64_t(d) * p.sums_rows + b) * wide + u;
  const uint64_t split = uint64_t(p.directions) * p.sums_rows * wide;
  const uint64_t gate_at = row * wide + u;
  const uint64_t own = (uint64_t(d) * p.batch + b) * p.hidden + u, state_at = (uint64_t(d) * p.batch + b) * p.state + u;

  float x[4], s[4];
  [[unroll]] for (uint g = 0; g < GATES; ++g) {
    x[g] = load_float(p.gates, gate_at + g * p.hidden, DTYPE);
    s[g] = sum_of_splits(p.sums, sum_at + g * p.hidden, split);
    if (HAS_BIAS) s[g] += load_float(p.bias, d * wide + g * p.hidden + u, DTYPE);
  }
  float before = 0.0;
  if (u < p.state && (KEEPS || CELL == GRU)) before = load_float(p.h, state_at, DTYPE);
  float h, inner = 0.0;
  if (CELL == LSTM) {
    [[unroll]] for (uint g = 0; g < GATES; ++g) x[g] = g == 2 ? tanh_(x[g] + s[g]) : sigmoid(x[g] + s[g]);
    inner = F32Ref(p.c + own * 4).v;
    const float c = x[1] * inner + x[0] * x[2];
    F32Ref(p.c + own * 4).v = c;
    h = x[3] * tanh_(c);
  } else if (CELL == GRU) {
    x[0] = sigmoid(x[0] + s[0]);
    x[1] = sigmoid(x[1] + s[1]);
    inner = s[2];
    x[2] = tanh_(x[2] + x[0] * inner);
    h = x[2] + x[1] * (before - x[2]);
  } else {
    x[0] += s[0];
    h = x[0] = CELL == TANH ? tanh_(x[0]) : x[0] < 0.0 ? 0.0 : x[0];  // a NaN stays
  }
  store_float(p.h_out, own, DTYPE, h);
  if (HAS_OUT) {
    const int64_t at = int64_t(p.first_row[d] + b) * p.out_row + int64_t(d) * p.out_direction + int64_t(u);
    store_float(p.out_, uint64_t(at), DTYPE, h);
  }
  if (KEEPS) {
    [[unroll]] for (uint g = 0; g < GATES; ++g) store_float(p.gates, gate_at + g * p.hidden, DTYPE, x[g]);
    if (CELL == LSTM || CELL == GRU) F32Ref(p.inner + (row * p.hidden + u) * 4).v = inner;
    if (u < p.state) store_float(p.before, row * p.state + u, DTYPE, before);
  }
}
