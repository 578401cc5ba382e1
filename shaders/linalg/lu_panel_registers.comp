#pragma aule inline
#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#pragma aule feature subgroup_arithmetic
#extension GL_KHR_shader_subgroup_arithmetic : require
// As lu_panel.comp, for tall panels [m, n], n <= 32 and n <= m <= ROWS LOCAL, that shared memory does not hold. Columns
// are factorized SUB at a time in registers; the panel's others follow in memory, once for all of these. An invocation
// has rows lane, lane + LOCAL, ...; no other one touches them in memory, and rows are exchanged through shared memory.
layout(constant_id = 0) const int ROWS = 1;
layout(constant_id = 1) const bool PIVOTS = true;
layout(constant_id = 2) const int LOCAL = 32;
layout(local_size_x_id = 2) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"

#include "linalg/lu_panel_params.glsl"
#include "common/params.glsl"

const int SUB = 32 / C_BYTES, MOST = 32;
shared R best_value[LOCAL];  // of subgroups
shared uint best_row[LOCAL];
shared C pivot_row[SUB];
shared C other_row[SUB];
shared uint exchanged[SUB];      // rows that change places with the block's
shared C slots[2 * SUB * MOST];  // the block's rows, then those, as they were
shared C top[SUB * MOST];        // the block's rows of the panel
shared C lower[SUB * SUB];       // and of the block

#include "linalg/lu_panel_source.glsl"

C own[ROWS * SUB];
R largest;
uint lane, batch, first_column, count, pivot;
int64_t start;

#define ROW(r) (uint(r) * LOCAL + lane)
#define AT(i, j) (start + int64_t(i) * p.row + int64_t(j) * p.col)

void load_block() {
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int c = 0; c < SUB; ++c)
      own[r * SUB + c] = ROW(r) < p.m && c < count ? load_number(p.a, AT(ROW(r), first_column + c)) : C(0);
}
void store_block() {
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int c = 0; c < SUB; ++c)
      if (ROW(r) < p.m && c < count) store_number(p.a, AT(ROW(r), first_column + c), own[r * SUB + c]);
}

// pivot and largest, the same for all invocations.
void find_pivot(int j) {
  largest = R(-1);
  pivot = 0xffffffffu;
  [[unroll]] for (int r = ROWS - 1; r >= 0; --r) {
    const R value = pivot_size(own[r * SUB + j]);
    const bool is_candidate = PIVOTS ? ROW(r) >= first_column + j && ROW(r) < p.m : ROW(r) == first_column + j;
    if (is_candidate && (value >= largest || largest < R(0))) {  // a NaN where there is nothing else
      largest = value >= R(0) ? value : largest;
      pivot = ROW(r);
    }
  }
  R of_all = subgroupMax(largest);
  uint row_of_all = subgroupMin(largest == of_all ? pivot : 0xffffffffu);
  if (subgroupElect()) {
    best_value[gl_SubgroupID] = of_all;
    best_row[gl_SubgroupID] = row_of_all;
  }
  barrier();  // every subgroup's best is written, the last pivot's row read
  largest = R(-2);
  pivot = 0xffffffffu;
  for (uint s = gl_SubgroupInvocationID; s < gl_NumSubgroups; s += gl_SubgroupSize) {
    const R value = best_value[s];
    const uint row = best_row[s];
    if (value > largest || value == largest && row < pivot) {
      largest = value;
      pivot = row;
    }
  }
  of_all = subgroupMax(largest);
  pivot = subgroupMin(largest == of_all ? pivot : 0xffffffffu);
  largest = of_all;
  if (pivot >= p.m) pivot = first_column + j;  // nothing but NaN, which a compiler may take for a number
}

void eliminate(int j) {
  const uint at = first_column + j;
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int c = 0; c < SUB; ++c) {
      if (ROW(r) == pivot) pivot_row[c] = own[r * SUB + c];
      if (ROW(r) == at) other_row[c] = own[r * SUB + c];
    }
  barrier();  // both rows are written, the subgroups' best read
  const C divisor = pivot_row[j];
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    [[unroll]] for (int c = 0; c < SUB; ++c) {
      if (ROW(r) == pivot) own[r * SUB + c] = other_row[c];
      if (ROW(r) == at) own[r * SUB + c] = pivot_row[c];
    }
    if (ROW(r) > at) {
      const C l = largest != R(0) ? over(own[r * SUB + j], divisor) : own[r * SUB + j];
      own[r * SUB + j] = l;
      [[unroll]] for (int c = j + 1; c < SUB; ++c) own[r * SUB + c] -= mul(l, pivot_row[c]);
    }
  }
}

// Rows of the panel's other columns change places as the block's did.
void exchange_rows() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    for (uint s = 0; s < 2 * count; ++s) {
      const uint row = s < count ? first_column + s : exchanged[s - count];
      if (ROW(r) == row)
        for (uint c = 0; c < p.n; ++c) slots[s * MOST + c] = load_number(p.a, AT(row, c));
    }
  }
  barrier();  // the rows are written
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    const uint slot = slot_of_source(ROW(r), first_column, count);
    if (slot < 2 * count) {
      for (uint c = 0; c < p.n; ++c) {
        const bool is_left = c < first_column, is_right = c >= first_column + count;
        if (is_left) store_number(p.a, AT(ROW(r), c), slots[slot * MOST + c]);
        if (is_right && ROW(r) >= first_column + count) store_number(p.a, AT(ROW(r), c), slots[slot * MOST + c]);
      }
    }
    if (ROW(r) >= first_column && ROW(r) < first_column + count) {
      const uint i = ROW(r) - first_column;
      const uint from = slot < 2 * count ? slot : i;
      for (uint c = 0; c < p.n; ++c) top[i * MOST + c] = slots[from * MOST + c];
      [[unroll]] for (int c = 0; c < SUB; ++c) lower[i * SUB + c] = own[r * SUB + c];
    }
  }
  barrier();  // the block's rows are written
}

// The columns to the right of the block: U of its rows, then what the others lose.
void update_right() {
  for (uint c = first_column + count + lane; c < p.n; c += LOCAL)
    for (uint i = 1; i < count; ++i)
      for (uint k = 0; k < i; ++k) top[i * MOST + c] -= mul(lower[i * SUB + k], top[k * MOST + c]);
  barrier();  // U is written
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (ROW(r) >= first_column && ROW(r) < p.m) {
      for (uint c = first_column + count; c < p.n; ++c) {
        if (ROW(r) < first_column + count) {
          store_number(p.a, AT(ROW(r), c), top[(ROW(r) - first_column) * MOST + c]);
        } else {
          C value = load_number(p.a, AT(ROW(r), c));
          [[unroll]] for (int k = 0; k < SUB; ++k) value -= mul(own[r * SUB + k], top[k * MOST + c]);
          store_number(p.a, AT(ROW(r), c), value);
        }
      }
    }
  }
}

void main() {
  lane = gl_LocalInvocationID.x;
  batch = linear_group();
  if (batch >= p.batches) return;  // the whole workgroup leaves
  start = int64_t(batch) * p.batch_stride;
  uint singular = 0;
  for (first_column = 0; first_column < p.n; first_column += SUB) {
    count = min(p.n - first_column, uint(SUB));
    load_block()
    [[unroll]] for (int j = 0; j < SUB; ++j) {
      if (j < count) {
        find_pivot(j)
        if (lane == 0) exchanged[j] = pivot;
        if (lane == 0 && PIVOTS)
          I32Ref(p.pivots + uint64_t(int64_t(batch) * p.pivots_batch + first_column + j) * 4).v =
              int(p.first + pivot + 1);
        if (largest == R(0) && singular == 0) singular = first_column + j + 1;
        eliminate(j)
      }
    }
    store_block()
    barrier();  // the exchanges are written, the last block's rows read
    exchange_rows()
    update_right()
  }
  if (lane == 0 && singular != 0 && I32Ref(p.info + batch * 4).v == 0)
    I32Ref(p.info + batch * 4).v = int(p.first + singular);
}
