#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// x = sums of the first `summed` rows (+ state, of a GRU always, else for the rows after them), and for the first
// `running` rows + more, at their places among all rows (recurrent.glsl). It goes to `state`, REAL, and where they
// are, for running rows, to `now`, [directions][batch][size], and `out_`. A projected state of an LSTM, forward, and
// gradients of states, backward.
// One invocation per element. sums: [SPLITS][directions][sums_rows][size].
#include "common/dtype.glsl"
layout(local_size_x = 128) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int SUMS_DTYPE = 0;
layout(constant_id = 2) const int CELL = 0;
layout(constant_id = 3) const int SPLITS = 1;
layout(constant_id = 4) const bool HAS_STATE = true;
layout(constant_id = 5) const bool HAS_MORE = false;
layout(constant_id = 6) const bool HAS_NOW = false;
layout(constant_id = 7) const bool HAS_OUT = false;
struct Params {
  uint64_t sums, state, now, more, out_;
  int64_t more_row, more_direction, out_row, out_direction;
  uint first_row[2], running[2], summed[2];
  uint directions, batch, size, visited, sums_rows;
};
#include "common/params.glsl"
#include "rnn/recurrent.glsl"
#include "rnn/split_sums.glsl"

void main() {
  const uint64_t id = linear_invocation();
  const uint u = uint(id % p.size), b = uint(id / p.size % p.visited), d = uint(id / p.size / p.visited);
  if (d >= p.directions || b >= max(p.running[d], p.summed[d])) return;
  const uint64_t own = (uint64_t(d) * p.batch + b) * p.size + u;
  const int64_t row = int64_t(p.first_row[d] + b);
  REAL x = REAL(0);
  if (b < p.summed[d]) {
    const uint64_t split = uint64_t(p.directions) * p.sums_rows * p.size;
    x = sum_of_splits(p.sums, (uint64_t(d) * p.sums_rows + b) * p.size + u, split);
  }
  if (HAS_STATE && (CELL == CELL_gru || b >= p.summed[d])) x += LOAD(p.state, own, REAL_DTYPE);
  if (b < p.running[d]) {
    if (HAS_MORE)
      x += LOAD(p.more, uint64_t(row * p.more_row + int64_t(d) * p.more_direction + int64_t(u)), DTYPE);
    if (HAS_NOW) STORE(p.now, own, DTYPE, x);
    if (HAS_OUT) STORE(p.out_, uint64_t(row * p.out_row + int64_t(d) * p.out_direction + int64_t(u)), DTYPE, x);
  }
  if (HAS_STATE) STORE(p.state, own, REAL_DTYPE, x);
}
