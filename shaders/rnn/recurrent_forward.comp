#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// One step of a recurrent layer in all its directions (cells, rows and directions: recurrent.glsl), of input gates
// [directions][rows][GATES * hidden] and of the state's product with its weights:
//   h, c = cell(gates, sums + bias, h, c)
// KEEPS: activated gates take the place of input gates; `inner` and `before` get what the backward reads beside them.
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
  uint64_t c;         // REAL [directions][batch][hidden]
  uint64_t out_;      // rows out_row apart, directions out_direction
  uint64_t inner, before;  // REAL [directions][rows][hidden], [directions][rows][state]
  int64_t out_row, out_direction;
  uint64_t rows;
  uint first_row[2], running[2];
  uint directions, batch, hidden, state, sums_rows;
};
#include "common/params.glsl"
#include "rnn/recurrent.glsl"
#include "rnn/split_sums.glsl"

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

  REAL x[4], s[4];
  [[unroll]] for (uint g = 0; g < GATES; ++g) {
    x[g] = LOAD(p.gates, gate_at + g * p.hidden, DTYPE);
    s[g] = sum_of_splits(p.sums, sum_at + g * p.hidden, split);
    if (HAS_BIAS) s[g] += LOAD(p.bias, d * wide + g * p.hidden + u, DTYPE);
  }
  REAL before = REAL(0);
  if (u < p.state && (KEEPS || CELL == CELL_gru)) before = LOAD(p.h, state_at, DTYPE);
  REAL c = CELL == CELL_lstm ? LOAD(p.c, own, REAL_DTYPE) : REAL(0);
  const REAL inner = kept_inner(s, c), h = cell_forward(x, s, before, c);
  if (CELL == CELL_lstm) STORE(p.c, own, REAL_DTYPE, c);
  STORE(p.h_out, own, DTYPE, h);
  if (HAS_OUT) {
    const int64_t at = int64_t(p.first_row[d] + b) * p.out_row + int64_t(d) * p.out_direction + int64_t(u);
    STORE(p.out_, uint64_t(at), DTYPE, h);
  }
  if (KEEPS) {
    [[unroll]] for (uint g = 0; g < GATES; ++g) STORE(p.gates, gate_at + g * p.hidden, DTYPE, x[g]);
    if (CELL == CELL_lstm || CELL == CELL_gru) STORE(p.inner, row * p.hidden + u, REAL_DTYPE, inner);
    if (u < p.state) STORE(p.before, row * p.state + u, DTYPE, before);
  }
}
