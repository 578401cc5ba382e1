#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// P a P^T = L D L^T (IS_HERMITIAN: L^H) of the lower triangle of a, in place, D of blocks 1 x 1 and 2 x 2, by Bunch's
// and Kaufman's pivots; the order of operations and what is stored are those of LAPACK's sytf2 and hetf2. A workgroup
// has a matrix of the batch, in memory, an invocation rows of what a step changes.
// `pivots`: 1-based rows; negative ones, in pairs, for blocks 2 x 2. `info`: the first block that is 0.
layout(constant_id = 0) const bool IS_HERMITIAN = false;
layout(constant_id = 1) const int LOCAL = 32;
layout(local_size_x_id = 1) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"

struct Params {
  uint64_t a, pivots, info;
  int64_t batch_stride, row, col, pivots_batch;
  uint n, batches;
};
#include "common/params.glsl"

layout(buffer_reference, scalar, buffer_reference_align = C_ALIGN) coherent buffer SharedNumberRef { C v; };
shared R best_value[LOCAL];
shared uint best_row[LOCAL];

uint lane;
uint64_t base;

uint64_t place(uint i, uint j) { return base + uint64_t((int64_t(i) * p.row + int64_t(j) * p.col) * C_BYTES); }
C get(uint i, uint j) { return SharedNumberRef(place(i, j)).v; }
void put(uint i, uint j, C value) { SharedNumberRef(place(i, j)).v = value; }
C mirrored(C x) { return IS_HERMITIAN ? conjugate(x) : x; }
C on_diagonal(C x) { return IS_HERMITIAN ? from_real(real_part(x)) : x; }

void all_see() {
  memoryBarrierBuffer();
  barrier();  // what others wrote to the matrix is seen
}

// The largest magnitude and its first row, of all invocations'.
R reduce_largest(R value, inout uint row) {
  best_value[lane] = value;
  best_row[lane] = row;
  barrier();  // every invocation's best is written
  R largest = R(-1);
  row = 0xffffffffu;
  for (uint l = 0; l < LOCAL; ++l) {
    if (best_value[l] > largest || best_value[l] == largest && best_row[l] < row) {
      largest = best_value[l];
      row = best_row[l];
    }
  }
  barrier();  // they are read
  return largest;
}
// Below the diagonal of column k.
R largest_below(uint k, out uint row) {
  R value = R(-1);
  row = 0xffffffffu;
  for (uint i = k + 1 + lane; i < p.n; i += LOCAL) {
    const R v = pivot_size(get(i, k));
    if (v > value) {
      value = v;
      row = i;
    }
  }
  const R largest = reduce_largest(value, row);
  return largest < R(0) ? R(0) : largest;
}
// Off the diagonal of row and column i of what is left from k on.
R largest_beside(uint i, uint k) {
  R value = R(0);
  for (uint j = k + lane; j < p.n; j += LOCAL) {
    if (j == i) continue;
    const R v = pivot_size(j < i ? get(i, j) : get(j, i));
    if (v > value) value = v;
  }
  uint row = 0;
  return reduce_largest(value, row);
}

// Rows and columns `to` > `from` of what is left change places; with a block 2 x 2 its first column, k, too.
void exchange(uint from, uint to, uint k) {
  for (uint i = from + lane; i < p.n; i += LOCAL) {
    if (i > to) {
      const C x = get(i, from);
      put(i, from, get(i, to));
      put(i, to, x);
    } else if (i > from && i < to) {
      const C x = get(i, from);
      put(i, from, mirrored(get(to, i)));
      put(to, i, mirrored(x));
    } else if (i == to) {
      put(to, from, mirrored(get(to, from)));
    } else {
      const C x = on_diagonal(get(from, from));
      put(from, from, on_diagonal(get(to, to)));
      put(to, to, x);
      if (from > k) {
        const C y = get(from, k);
        put(from, k, get(to, k));
        put(to, k, y);
      }
    }
  }
}

void eliminate_one(uint k) {
  const C d = on_diagonal(get(k, k));
  for (uint i = k + 1 + lane; i < p.n; i += LOCAL) {
    const C l = over(get(i, k), d);
    for (uint j = k + 1; j <= i; ++j) put(i, j, get(i, j) - mul(l, mirrored(get(j, k))));
    if (IS_HERMITIAN) put(i, i, on_diagonal(get(i, i)));
  }
  all_see();
  for (uint i = k + 1 + lane; i < p.n; i += LOCAL) put(i, k, over(get(i, k), d));
}

// Row j of what follows, times the inverse of the block 2 x 2 at k.
void solve_block(uint k, uint j, out C first, out C second) {
  const C below = get(k + 1, k), above = mirrored(below);
  const C d0 = on_diagonal(get(k, k)), d1 = on_diagonal(get(k + 1, k + 1));
  const C divisor = mul(over(d0, above), over(d1, below)) - from_real(R(1));
  const C u = over(get(j, k), below), v = over(get(j, k + 1), above);
  first = over(mul(over(d1, above), u) - v, divisor);
  second = over(mul(over(d0, below), v) - u, divisor);
}
void eliminate_two(uint k) {
  for (uint i = k + 2 + lane; i < p.n; i += LOCAL) {
    C first, second;
    solve_block(k, i, first, second);
    for (uint j = k + 2; j <= i; ++j)
      put(i, j, get(i, j) - mul(first, mirrored(get(j, k))) - mul(second, mirrored(get(j, k + 1))));
    if (IS_HERMITIAN) put(i, i, on_diagonal(get(i, i)));
  }
  all_see();
  for (uint i = k + 2 + lane; i < p.n; i += LOCAL) {
    C first, second;
    solve_block(k, i, first, second);
    put(i, k, first);
    put(i, k + 1, second);
  }
}

// Columns of the block at k (1 or 2), and the row that its last one changes places with. 0: nothing to divide by.
uint choose(uint k, out uint row) {
  const R ALPHA = (R(1) + sqrt(R(17))) / R(8);
  const R own = pivot_size(on_diagonal(get(k, k)));
  uint below;
  const R column = largest_below(k, below);
  row = k;
  if (!(max(own, column) > R(0))) return 0;
  if (own >= ALPHA * column) return 1;
  if (below >= p.n) return 0;
  const R beside = largest_beside(below, k);
  if (own >= ALPHA * column * (column / beside)) return 1;
  row = below;
  return pivot_size(on_diagonal(get(below, below))) >= ALPHA * beside ? 1 : 2;
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint batch = linear_group();
  if (batch >= p.batches) return;  // the whole workgroup leaves
  base = p.a + uint64_t(int64_t(batch) * p.batch_stride * C_BYTES);
  const uint64_t pivots = p.pivots + uint64_t(int64_t(batch) * p.pivots_batch * 4);
  uint zero = 0;
  for (uint k = 0; k < p.n;) {
    uint row;
    const uint chosen = choose(k, row), columns = max(chosen, 1u), last = k + columns - 1;
    if (chosen == 0 && zero == 0) zero = k + 1;
    barrier();  // the columns are read
    if (row != last) exchange(last, row, k);
    all_see();
    if (chosen == 1) eliminate_one(k);
    if (chosen == 2) eliminate_two(k);
    if (lane == 0) {
      I32Ref(pivots + k * 4).v = chosen == 2 ? -int(row + 1) : int(row + 1);
      if (chosen == 2) I32Ref(pivots + (k + 1) * 4).v = -int(row + 1);
      if (IS_HERMITIAN)
        for (uint c = 0; c < columns; ++c) put(k + c, k + c, on_diagonal(get(k + c, k + c)));
    }
    all_see();
    k += columns;
  }
  if (lane == 0) I32Ref(p.info + batch * 4).v = int(zero);
}
