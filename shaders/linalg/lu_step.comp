#pragma aule inline
#pragma aule feature subgroup_arithmetic
#extension GL_KHR_shader_subgroup_arithmetic : require
// One launch for each SUB columns of P a = L U, float32, a [m, n]: the last step's columns [begin, begin + count) are
// applied to others, while one workgroup of the matrix already factorizes the next `width` columns, after it has
// applied the step to them. Others have a column each of the outer block, which ends at `last`: exchanges of rows, U,
// and what the rows below lose. The rest have some columns outside of the block each, for exchanges alone.
// An invocation has rows lane, lane + LOCAL, ... from row begin + count on. `moves`, [batches, 2, 2, 2 SUB]: rows that
// a step writes and where they come from, by turns; ~0: none. Pivots and info: lu_panel.comp.
// What was tried, and what it gave: docs/ladders/lu.md
layout(constant_id = 0) const int ROWS = 8;
layout(constant_id = 1) const int SUB = 8;
layout(constant_id = 2) const bool PIVOTS = true;
layout(constant_id = 3) const int LOCAL = 512;
layout(local_size_x_id = 3) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t a, pivots, info, moves;
  int64_t batch_stride, row, col, pivots_batch;
  uint m, n, batches, first;  // first: rows of the whole matrix above row 0
  uint begin, count, width, last, turn;
};
#include "common/params.glsl"

const int SLOTS = 2 * SUB, MOST_SUBGROUPS = LOCAL / 8, ACROSS = LOCAL / SLOTS;
shared uint targets[SLOTS];  // of the step: its rows, then those that these change places with
shared uint sources[SLOTS];
shared float slots[SLOTS * SUB];  // what comes there, by rows
shared float lower[SUB * SUB];
shared float upper[SUB * SUB];
shared float staged[LOCAL];
shared uint best_key[2 * MOST_SUBGROUPS];  // of subgroups, for the columns by turns
shared uint best_row[2 * MOST_SUBGROUPS];
shared float best_values[2 * MOST_SUBGROUPS * SUB];
shared float top_values[2 * SUB];  // of the row that changes places with the pivot's
shared uint exchanged[SUB];

float own[ROWS * SUB];
float u[SUB];
uint lane, batch, from_row, pivot, key_of_all, subgroup_of_all, singular;
uint64_t start;

const uint NONE = 0xffffffffu, ZERO = 1;  // ZERO: the key of 0
#define ROW(r) (from_row + uint(r) * LOCAL + lane)
#define AT(i, j) F32Ref(start + uint64_t((int64_t(i) * p.row + int64_t(j) * p.col) * 4)).v
#define MOVES(turn) (p.moves + uint64_t((batch * 2 + (turn)) * 2 * SLOTS) * 4)

void load_step() {
  if (lane < SLOTS) {
    targets[lane] = uint(I32Ref(MOVES(p.turn ^ 1) + lane * 4).v);
    sources[lane] = uint(I32Ref(MOVES(p.turn ^ 1) + (SLOTS + lane) * 4).v);
  }
  if (lane < SUB * SUB) {
    const uint i = lane / SUB, k = lane % SUB;
    lower[lane] = i < p.count && k < i ? AT(p.begin + i, p.begin + k) : 0.0;
  }
  barrier();  // the step is written
}

// u = L^-1 of the step's rows of a column, which is `c` of `columns` in slots.
void solve_top(uint c, uint columns) {
  [[unroll]] for (int i = 0; i < SUB; ++i) {
    u[i] = slots[i * columns + c];
    [[unroll]] for (int k = 0; k < i; ++k) u[i] -= lower[i * SUB + k] * u[k];
  }
}
void store_top(uint column) {
  [[unroll]] for (int i = 0; i < SUB; ++i)
    if (i < p.count) AT(p.begin + i, column) = u[i];
}

// A branch around a load would keep the next one waiting: rows past the end load the last one, and are not stored.
#define LAST_ROW(r) min(ROW(r), p.m - 1)

// A column of the outer block.
void update_column(uint column) {
  if (lane < SLOTS) slots[lane] = targets[lane] != NONE ? AT(sources[lane], column) : 0.0;
  [[unroll]] for (int r = 0; r < ROWS; ++r) own[r] = AT(LAST_ROW(r), column);
  barrier();  // what changes places is read
  solve_top(0, 1)
  if (lane == 0) { store_top(column) }
  [[unroll]] for (int s = SUB; s < SLOTS; ++s)
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      if (ROW(r) == targets[s]) own[r] = slots[s];
  [[unroll]] for (int k = 0; k < SUB; ++k)  // u is zero past the step's columns
    [[unroll]] for (int r = 0; r < ROWS; ++r) own[r] -= AT(LAST_ROW(r), p.begin + min(k, p.count - 1)) * u[k];
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    if (ROW(r) < p.m) AT(ROW(r), column) = own[r];
}

// ACROSS columns outside of the block: place `which` of all such.
void exchange_columns(uint which) {
  const uint s = lane / ACROSS, place = which * ACROSS + lane % ACROSS;
  const uint col = place < p.begin ? place : place - p.begin + p.last;
  const bool moves = s < SLOTS && col < p.n && targets[min(s, SLOTS - 1)] != NONE;
  staged[lane] = moves ? AT(sources[s], col) : 0.0;
  barrier();  // what changes places is read
  if (moves) AT(targets[s], col) = staged[lane];
}

void load_panel() {
  [[unroll]] for (int c = 0; c < SUB; ++c)
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      own[r * SUB + c] = AT(LAST_ROW(r), from_row + min(c, p.width - 1));
}
void store_panel() {
  [[unroll]] for (int c = 0; c < SUB; ++c)
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      if (ROW(r) < p.m && c < p.width) AT(ROW(r), from_row + c) = own[r * SUB + c];
}

// The step, applied to the panel's columns.
void update_panel() {
  for (uint e = lane; e < SLOTS * SUB; e += LOCAL) {
    const uint s = e / SUB, c = e % SUB;
    slots[e] = targets[s] != NONE && c < p.width ? AT(sources[s], from_row + c) : 0.0;
  }
  barrier();  // what changes places is read
  if (lane < SUB) {
    solve_top(lane, SUB)
    [[unroll]] for (int k = 0; k < SUB; ++k) upper[k * SUB + lane] = u[k];
    if (lane < p.width) { store_top(from_row + lane) }
  }
  [[unroll]] for (int s = SUB; s < SLOTS; ++s)
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      if (ROW(r) == targets[s])
        [[unroll]] for (int c = 0; c < SUB; ++c) own[r * SUB + c] = slots[s * SUB + c];
  barrier();  // U is written
  [[unroll]] for (int k = 0; k < SUB; ++k)
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
      const float l = AT(LAST_ROW(r), p.begin + min(k, p.count - 1));
      [[unroll]] for (int c = 0; c < SUB; ++c) own[r * SUB + c] -= l * upper[k * SUB + c];
    }
}

// Column j's pivot, its subgroup and its key, the same for all invocations. Keys are bits of magnitudes, plus 1; a NaN
// has 0, and is the pivot where there is nothing else.
void find_pivot(int j) {
  const uint turn = uint(j & 1) * MOST_SUBGROUPS;
  uint key = 0;
  pivot = NONE;
  [[unroll]] for (int r = ROWS - 1; r >= 0; --r) {
    const uint bits = floatBitsToUint(own[r * SUB + j]) & 0x7fffffffu, value = bits > 0x7f800000u ? 0 : bits + 1;
    const bool is_candidate = PIVOTS ? ROW(r) >= from_row + j && ROW(r) < p.m : ROW(r) == from_row + j;
    if (is_candidate && (value >= key || pivot == NONE)) {
      key = value;
      pivot = ROW(r);
    }
  }
  uint most = subgroupMax(key);
  const uint row = subgroupMin(key == most ? pivot : NONE);
  if (subgroupElect()) {
    best_key[turn + gl_SubgroupID] = most;
    best_row[turn + gl_SubgroupID] = row;
  }
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    if (ROW(r) == row)
      [[unroll]] for (int c = 0; c < SUB; ++c) best_values[(turn + gl_SubgroupID) * SUB + c] = own[r * SUB + c];
  if (lane == j)
    [[unroll]] for (int c = 0; c < SUB; ++c) top_values[(j & 1) * SUB + c] = own[c];
  barrier();  // the subgroups' best are written, those of the last column but one read
  key = 0;
  pivot = NONE;
  subgroup_of_all = NONE;
  for (uint s = gl_SubgroupInvocationID; s < gl_NumSubgroups; s += gl_SubgroupSize) {
    const uint other = best_key[turn + s], other_row = best_row[turn + s];
    if (other_row != NONE && (other > key || pivot == NONE || other == key && other_row < pivot)) {
      key = other;
      pivot = other_row;
      subgroup_of_all = s;
    }
  }
  key_of_all = subgroupMax(key);
  const uint row_of_all = subgroupMin(key == key_of_all ? pivot : NONE);
  subgroup_of_all = subgroupMin(pivot == row_of_all ? subgroup_of_all : NONE);
  pivot = row_of_all;
}

void eliminate(int j) {
  const uint best = (uint(j & 1) * MOST_SUBGROUPS + subgroup_of_all) * SUB;
  const float divisor = best_values[best + j], inverse = 1.0 / divisor;
  const bool is_large = abs(divisor) > 1e-30;  // else the inverse may overflow
  [[unroll]] for (int c = 0; c < SUB; ++c) u[c] = best_values[best + c];
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (ROW(r) == pivot)
      [[unroll]] for (int c = 0; c < SUB; ++c) own[r * SUB + c] = top_values[(j & 1) * SUB + c];
    if (ROW(r) == from_row + j)
      [[unroll]] for (int c = 0; c < SUB; ++c) own[r * SUB + c] = u[c];
    if (ROW(r) > from_row + j) {
      float l = own[r * SUB + j];
      if (key_of_all != ZERO) l = is_large ? l * inverse : l / divisor;
      own[r * SUB + j] = l;
      [[unroll]] for (int c = j + 1; c < SUB; ++c) own[r * SUB + c] -= l * u[c];
    }
  }
}

void store_moves() {
  if (lane < SLOTS) {
    const uint k = lane % SUB;
    uint target = NONE, from = NONE;
    if (k < p.width) {
      target = lane < SUB ? from_row + k : exchanged[k];
      from = target;
      for (uint s = 0; s < p.width; ++s) {
        const uint at = p.width - 1 - s, other = exchanged[at];
        from = from == from_row + at ? other : from == other ? from_row + at : from;
      }
    }
    I32Ref(MOVES(p.turn) + lane * 4).v = int(target);
    I32Ref(MOVES(p.turn) + (SLOTS + lane) * 4).v = int(from);
  }
}

// Written out: a compiler that left this loop alone would index `own` by a variable, in memory.
#define FACTORIZE(j)                                                                                             \
  if (j < SUB && j < p.width) {                                                                                  \
    find_pivot(j)                                                                                                \
    if (lane == 0) exchanged[j] = pivot;                                                                         \
    if (lane == 0 && PIVOTS)                                                                                     \
      I32Ref(p.pivots + uint64_t(int64_t(batch) * p.pivots_batch + from_row + j) * 4).v = int(p.first + pivot + 1); \
    if (key_of_all == ZERO && singular == 0) singular = from_row + j + 1;                                        \
    eliminate(j)                                                                                                 \
  }

void factorize_panel() {
  load_panel()
  if (p.count > 0) { update_panel() }
  singular = 0;
  FACTORIZE(0)
  FACTORIZE(1)
  FACTORIZE(2)
  FACTORIZE(3)
  FACTORIZE(4)
  FACTORIZE(5)
  FACTORIZE(6)
  FACTORIZE(7)
  store_panel()
  barrier();  // the exchanges are written
  store_moves()
  if (lane == 0 && singular != 0 && I32Ref(p.info + batch * 4).v == 0)
    I32Ref(p.info + batch * 4).v = int(p.first + singular);
}

void main() {
  lane = gl_LocalInvocationID.x;
  from_row = p.begin + p.count;
  const uint panels = p.width > 0 ? 1 : 0, inside = p.count > 0 ? p.last - from_row - p.width : 0;
  const uint outside = p.count > 0 ? (p.n - p.last + p.begin + ACROSS - 1) / ACROSS : 0;
  const uint workgroups = panels + inside + outside, which = linear_group() % workgroups;
  batch = linear_group() / workgroups;
  if (batch >= p.batches) return;  // the whole workgroup leaves
  start = p.a + uint64_t(int64_t(batch) * p.batch_stride * 4);
  if (p.count > 0) { load_step() }
  if (which < panels) {
    factorize_panel()
  } else if (which < panels + inside) {
    update_column(from_row + p.width + which - panels)
  } else {
    exchange_columns(which - panels - inside)
  }
}
