#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// x = L^-1 x in place, for lower triangular L [n, n], n <= 64, and x [n, columns], of each matrix of a batch. An upper
// triangle is a lower one read from its end: strides have signs.
// STAGED: a workgroup has COLUMNS columns of one matrix, and both operands in shared memory; SHARES invocations have a
// column, each some of the rows. Else an invocation has a column of any matrix, and operands stay where they are.
// What was tried, and what it gave: docs/ladders/lu.md
layout(constant_id = 0) const bool STAGED = false;
layout(constant_id = 1) const int MOST = 32;
layout(constant_id = 2) const int LOCAL = 32;
layout(constant_id = 3) const int SHARES = 1;
layout(local_size_x_id = 2) in;
#include "common/indexing.glsl"
#include "linalg/number.glsl"
#include "linalg/staging.glsl"

struct Params {
  uint64_t l, x;
  int64_t l_batch, x_batch, l_row, l_col, x_row, x_col;
  uint n, columns, batches;
  uint conjugates, is_unit;
};
#include "common/params.glsl"

const int COLUMNS = LOCAL / SHARES, PITCH = COLUMNS + 1;
shared C rows[STAGED ? MOST * (MOST + 1) / 2 : 1];  // of L, one after the other
shared C staged[STAGED ? MOST * PITCH : 1];

int64_t l_start, x_start;  // of the matrix, of the column
uint lane, column, share;

C get_l(uint i, uint j) {
  const C value = load_number(p.l, l_start + int64_t(i) * p.l_row + int64_t(j) * p.l_col);
  return p.conjugates != 0u ? conjugate(value) : value;
}
C get_x(uint i) { return load_number(p.x, x_start + int64_t(i) * p.x_row); }

void solve() {
  for (uint i = 0; i < p.n; ++i) {
    C sum = get_x(i);
    for (uint j = 0; j < i; ++j) sum -= mul(get_l(i, j), get_x(j));
    store_number(p.x, x_start + int64_t(i) * p.x_row, p.is_unit != 0u ? sum : over(sum, get_l(i, i)));
  }
}
// SUB rows at a time in registers, then what the rows below lose. Loops, not all of it unrolled: instructions that run
// once come from memory, and 64 rows have 2,016 products. Each share computes the 16 rows for itself, and takes them
// from every SHARES-th row below. Rows past n hold anything, and are not stored.
const int SUB = 16;
void solve_staged() {
  [[dont_unroll]] for (uint first = 0; first < p.n; first += SUB) {
    C x[SUB];
    [[unroll]] for (uint i = 0; i < SUB; ++i) x[i] = staged[(first + i) * PITCH + column];
    [[unroll]] for (uint j = 0; j < SUB; ++j) {
      if (p.is_unit == 0u) x[j] = over(x[j], rows[(first + j) * (first + j + 1) / 2 + first + j]);
      [[unroll]] for (uint i = j + 1; i < SUB; ++i)
        x[i] -= mul(rows[(first + i) * (first + i + 1) / 2 + first + j], x[j]);
    }
    [[dont_unroll]] for (uint i = first + SUB + share; i < p.n; i += SHARES) {
      C sum = staged[i * PITCH + column];
      [[unroll]] for (uint j = 0; j < SUB; ++j) sum -= mul(rows[i * (i + 1) / 2 + first + j], x[j]);
      staged[i * PITCH + column] = sum;
    }
    if (SHARES > 1) barrier();  // the rows below are written, these are read
    if (share == 0)
      [[unroll]] for (uint i = 0; i < SUB; ++i) staged[(first + i) * PITCH + column] = x[i];
  }
}

C load_x(uvec2 at) { return load_number(p.x, x_start + int64_t(at.x) * p.x_row + int64_t(at.y) * p.x_col); }
C load_l(uvec2 at) { return load_number(p.l, l_start + int64_t(at.x) * p.l_row + int64_t(at.y) * p.l_col); }
void keep_x(uvec2 at, C value) { staged[at.x * PITCH + at.y] = value; }
void keep_l(uvec2 at, C value) {  // the other triangle is loaded too, and anything
  if (at.y <= at.x) rows[at.x * (at.x + 1) / 2 + at.y] = p.conjugates != 0u ? conjugate(value) : value;
}

#define X_PLACE staged_place(e, p.n, count, p.x_row, p.x_col)
#define L_PLACE staged_place(e, p.n, p.n, p.l_row, p.l_col)
void load_columns(uint count) { STAGE(p.n * count, load_x(X_PLACE), keep_x(X_PLACE, loaded)) }
void load_triangle() { STAGE(p.n * p.n, load_l(L_PLACE), keep_l(L_PLACE, loaded)) }
void store_columns(uint count) {
  for (uint e = lane; e < p.n * count; e += LOCAL) {
    const uvec2 at = X_PLACE;
    store_number(p.x, x_start + int64_t(at.x) * p.x_row + int64_t(at.y) * p.x_col, staged[at.x * PITCH + at.y]);
  }
}

void main() {
  lane = gl_LocalInvocationID.x;
  if (STAGED) {
    column = lane % COLUMNS;
    share = lane / COLUMNS;
    const uint tiles = (p.columns + COLUMNS - 1) / COLUMNS, batch = linear_group() / tiles;
    const uint first = linear_group() % tiles * COLUMNS, count = min(p.columns - first, uint(COLUMNS));
    if (batch < p.batches) {
      l_start = int64_t(batch) * p.l_batch;
      x_start = int64_t(batch) * p.x_batch + int64_t(first) * p.x_col;
      load_triangle();
      load_columns(count);
    }
    barrier();  // both operands are written
    if (batch < p.batches) solve_staged();  // of columns past the end anything
    barrier();  // the solution is written
    if (batch < p.batches) store_columns(count);
  } else {
    const uint64_t column = linear_invocation();
    if (column >= uint64_t(p.columns) * p.batches) return;
    const int64_t batch = int64_t(column / p.columns);
    l_start = batch * p.l_batch;
    x_start = batch * p.x_batch + int64_t(column % p.columns) * p.x_col;
    solve();
  }
}
