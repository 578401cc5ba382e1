#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// P a = L U of a panel a [m, n] in place, n <= SIDE, pivots the first of the largest in their column (LAPACK's order of
// complex numbers: |re| + |im|). A workgroup has a panel of the batch, an invocation its rows lane, lane + LOCAL, ...,
// which no other one touches in memory. ELEMENTS > 1: the panel is in shared memory.
// `pivots` gets 1-based rows of the whole matrix, counted from `first`; `info`, where it is 0, the first column without
// a pivot, counted likewise. Without PIVOTS rows stay where they are. SPREAD, of a staged panel: an update is shared by
// element, not by row.
layout(constant_id = 0) const int ELEMENTS = 1;
layout(constant_id = 1) const int SIDE = 32;
layout(constant_id = 2) const bool PIVOTS = true;
layout(constant_id = 3) const bool SPREAD = false;
layout(constant_id = 4) const int LOCAL = 32;
layout(local_size_x_id = 4) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"
#include "linalg/staging.glsl"

#include "linalg/lu_panel_params.glsl"
#include "common/params.glsl"

const bool STAGED = ELEMENTS > 1;
const uint ACROSS = LOCAL < 32 ? LOCAL : 32, DOWN = LOCAL / ACROSS;
const int SEARCHERS = LOCAL < 32 ? LOCAL : 32;
shared C panel[ELEMENTS];  // by columns
shared C pivot_row[SIDE];
shared C other_row[SIDE];
shared R best_value[LOCAL];
shared uint best_row[LOCAL];

uint lane, batch;
int64_t start;

C get(uint i, uint j) {
  return STAGED ? panel[j * p.m + i] : load_number(p.a, start + int64_t(i) * p.row + int64_t(j) * p.col);
}
void put(uint i, uint j, C value) {
  if (STAGED) panel[j * p.m + i] = value;
  else store_number(p.a, start + int64_t(i) * p.row + int64_t(j) * p.col, value);
}
// The first row from `i` on that this invocation owns.
uint own_row(uint i) { return i + (lane + LOCAL - i % LOCAL) % LOCAL; }

uvec2 place_of(uint e) { return staged_place(e, p.m, p.n, p.row, p.col); }
int64_t address_of(uvec2 at) { return start + int64_t(at.x) * p.row + int64_t(at.y) * p.col; }
void keep(uvec2 at, C value) { panel[at.y * p.m + at.x] = value; }

void load_panel() { STAGE(p.m * p.n, load_number(p.a, address_of(place_of(e))), keep(place_of(e), loaded)) }
void store_panel() {
  for (uint e = lane; e < p.m * p.n; e += LOCAL) {
    const uvec2 at = place_of(e);
    store_number(p.a, address_of(at), panel[at.y * p.m + at.x]);
  }
}

void take_better(inout R value, inout uint row, uint other) {
  const R v = best_value[other];
  const uint r = best_row[other];
  if (v > value || v == value && r < row) {
    value = v;
    row = r;
  }
}
// Row and magnitude of the pivot of column j, the same for all invocations.
uint find_pivot(uint j, out R value) {
  value = R(-1);
  uint row = own_row(j);
  for (uint i = row; i < (PIVOTS ? p.m : min(j + 1, p.m)); i += LOCAL) {
    const R v = pivot_size(get(i, j));
    if (v > value) {
      value = v;
      row = i;
    }
  }
  best_value[lane] = value;
  best_row[lane] = row;
  barrier();  // every invocation's best is written, and the panel
  if (LOCAL > SEARCHERS) {
    if (lane < SEARCHERS) {
      for (uint other = lane + SEARCHERS; other < LOCAL; other += SEARCHERS) take_better(value, row, other);
      best_value[lane] = value;
      best_row[lane] = row;
    }
    barrier();  // the searchers' best are written
  }
  value = best_value[0];
  row = best_row[0];
  for (uint other = 1; other < SEARCHERS; ++other) take_better(value, row, other);
  return row;
}

// Rows j and r change places, and pivot_row gets row j.
void swap_rows(uint j, uint r) {
  if (STAGED) {
    for (uint k = lane; k < p.n; k += LOCAL) {
      const C above = panel[k * p.m + j], below = panel[k * p.m + r];
      panel[k * p.m + r] = above;
      panel[k * p.m + j] = below;
      pivot_row[k] = below;
    }
    barrier();  // the rows are written
    return;
  }
  if (lane == r % LOCAL)
    for (uint k = 0; k < p.n; ++k) pivot_row[k] = get(r, k);
  if (r != j && lane == j % LOCAL)
    for (uint k = 0; k < p.n; ++k) other_row[k] = get(j, k);
  barrier();  // the rows are written
  if (r == j) return;
  if (lane == r % LOCAL)
    for (uint k = 0; k < p.n; ++k) put(r, k, other_row[k]);
  if (lane == j % LOCAL)
    for (uint k = 0; k < p.n; ++k) put(j, k, pivot_row[k]);
}

// Returns 1 + the first column without a pivot, or 0.
uint factorize() {
  uint singular = 0;
  for (uint j = 0; j < min(p.m, p.n); ++j) {
    R largest;
    const uint r = find_pivot(j, largest);
    if (PIVOTS && lane == 0)
      I32Ref(p.pivots + uint64_t(int64_t(batch) * p.pivots_batch + j) * 4).v = int(p.first + r + 1);
    swap_rows(j, r);
    const bool has_pivot = largest != R(0);
    if (!has_pivot && singular == 0) singular = j + 1;
    const C divisor = pivot_row[j];
    if (SPREAD) {
      for (uint i = j + 1 + lane; has_pivot && i < p.m; i += LOCAL)
        panel[j * p.m + i] = over(panel[j * p.m + i], divisor);
      barrier();  // the column is written
      for (uint k = j + 1 + lane / ACROSS; k < p.n; k += DOWN) {
        const C u = pivot_row[k];
        for (uint i = j + 1 + lane % ACROSS; i < p.m; i += ACROSS)
          panel[k * p.m + i] -= mul(panel[j * p.m + i], u);
      }
      barrier();  // the others are updated
      continue;
    }
    for (uint i = own_row(j + 1); i < p.m; i += LOCAL) {
      C l = get(i, j);
      if (has_pivot) {
        l = over(l, divisor);
        put(i, j, l);
      }
      for (uint k = j + 1; k < p.n; ++k) put(i, k, get(i, k) - mul(l, pivot_row[k]));
    }
  }
  return singular;
}

void main() {
  lane = gl_LocalInvocationID.x;
  batch = linear_group();
  if (batch >= p.batches) return;  // the whole workgroup leaves
  start = int64_t(batch) * p.batch_stride;
  if (STAGED) {
    load_panel();
    barrier();  // the panel is written
  }
  const uint singular = factorize();
  if (lane == 0 && singular != 0 && I32Ref(p.info + batch * 4).v == 0)
    I32Ref(p.info + batch * 4).v = int(p.first + singular);
  if (STAGED) {
    barrier();  // the panel is written
    store_panel();
  }
}
