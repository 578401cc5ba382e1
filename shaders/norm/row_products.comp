#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Rows of x [rows, n] and a number or a vector, in one pass:
//   KIND 0   out = a[row] x[row]
//   KIND 1   the same, and sums[row] = x[row] . y[row]
//   KIND 2   sums[row] = x[row] . y[row] + shift
// Rows are n elements at any start, x_row and y_row apart: 0 where all rows share one. A workgroup has ROWS
// rows: each element of the y that they share is loaded once for them.
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int Y_DTYPE = 0;
layout(constant_id = 2) const int A_DTYPE = 0;
layout(constant_id = 3) const int OUT_DTYPE = 0;
layout(constant_id = 4) const int SUM_DTYPE = 0;
layout(constant_id = 5) const int KIND = 0;
layout(constant_id = 6) const int VEC = 0;  // rowwise_group.glsl
layout(constant_id = 7) const int LOCAL = 8;
layout(constant_id = 8) const int ROWS = 1;  // at most LOCAL, and 1 unless KIND is 2 and y_row 0
layout(constant_id = 9) const bool IS_FULL = false;
layout(local_size_x_id = 7) in;
#define GROUP 1
const int KEPT = 4;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"
#include "norm/rowwise_group.glsl"

struct Params {
  uint64_t x, y, a, out_, sums, shift;
  int64_t x_row, y_row;
  uint64_t rows;
  uint n, has_shift;
};
#include "common/params.glsl"

shared C partial[ROWS * LOCAL];

void main() {
  const uint64_t begin = uint64_t(linear_group()) * ROWS;
  if (begin >= p.rows) return;  // the whole workgroup leaves
  const uint lane = gl_LocalInvocationID.x;
  Row x[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) {  // past the last row, that one again
    const int64_t row = int64_t(begin + r < p.rows ? begin + r : p.rows - 1);
    x[r] = Row(p.x, uint64_t(row * p.x_row), uint64_t(1), p.n);
  }
  const Row y = Row(p.y, uint64_t(int64_t(begin) * p.y_row), uint64_t(1), p.n);
  const Row o = Row(p.out_, begin * p.n, uint64_t(1), p.n);
  const C factor = KIND == 2 ? C(0) : load1(p.a, begin, A_DTYPE);
  C sum[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) sum[r] = C(0);
  for (uint first = 0u; first < p.n; first += GROUP_ELEMS) {
    V4 kept_x[ROWS][KEPT], kept_y[KEPT];
    [[unroll]] for (int r = 0; r < ROWS; ++r) fetch_vec4s(x[r], lane, X_DTYPE, first, C(0), kept_x[r]);
    if (KIND != 0) {
      fetch_vec4s(y, lane, Y_DTYPE, first, C(0), kept_y);
      [[unroll]] for (int r = 0; r < ROWS; ++r)
        [[unroll]] for (int j = 0; j < KEPT; ++j) sum[r] += sum4(kept_x[r][j] * kept_y[j]);
    }
    if (KIND != 2) {
      [[unroll]] for (int j = 0; j < KEPT; ++j) kept_x[0][j] *= factor;
      put_vec4s(o, lane, OUT_DTYPE, first, kept_x[0]);
    }
  }
  if (KIND == 0) return;
  [[unroll]] for (int r = 0; r < ROWS; ++r) partial[r * LOCAL + lane] = sum[r];
  barrier();  // all partial sums written
  for (uint h = LOCAL / 2; h > 0u; h /= 2) {
    if (lane < h)
      [[unroll]] for (int r = 0; r < ROWS; ++r) partial[r * LOCAL + lane] += partial[r * LOCAL + lane + h];
    barrier();  // this level done
  }
  if (lane >= uint(ROWS) || begin + lane >= p.rows) return;
  C total = partial[lane * LOCAL];
  if (KIND == 2 && p.has_shift != 0u) total += load1(p.shift, 0, STAT_DTYPE);
  store1(p.sums, begin + lane, SUM_DTYPE, total);
}
