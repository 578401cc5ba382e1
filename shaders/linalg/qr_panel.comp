#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// Householder reflections of columns of a column-major matrix: A = H0 H1 .. R, H = I - tau v v^H, v[k] = 1, with
// LAPACK's signs (geqr2). R is left in the upper triangle, the rest of v below it. A workgroup has a matrix, in shared
// memory or where it lies; LANES invocations have a column. The products of column k with itself and with those behind
// it are one pass: v is x / (alpha - beta), so that beta need not be known before. v is divided at the end.
layout(constant_id = 0) const int LOCAL = 64;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int LANES = 8;
layout(constant_id = 2) const bool IN_SHARED = true;
layout(constant_id = 3) const int ELEMS = 1;  // of the matrix in shared memory, its columns apart by (rows | 1)
const int STEPS = 96;                          // at most; csrc/ops/linalg/qr.cpp
#include "common/indexing.glsl"
#include "linalg/reflection.glsl"

struct Params {
  uint64_t a, tau;
  int64_t a_batch;  // elements from a matrix to the next
  uint tau_batch, a_column, rows, columns;
};
#include "common/params.glsl"

shared C tile[ELEMS];
shared C partials[LOCAL];
shared C scales[STEPS];
uint64_t origin;

C at(uint i, uint j) {
  if (IN_SHARED) return tile[j * (p.rows | 1u) + i];
  return ScalarRef(origin).v[j * p.a_column + i];
}
void put(uint i, uint j, C x) {
  if (IN_SHARED) tile[j * (p.rows | 1u) + i] = x;
  else ScalarRef(origin).v[j * p.a_column + i] = x;
}
// Orders what the workgroup wrote to the matrix and to `partials`.
void sync() {
  if (IN_SHARED) barrier();
  else controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                      gl_SemanticsAcquireRelease);
}

// Of the columns' products, the sum of a column's lanes.
C sum_of(uint slot) {
  C sum = C(0);
  for (uint l = 0u; l < uint(LANES); ++l) sum += partials[slot * uint(LANES) + l];
  return sum;
}
R largest_below(uint k) {
  R most = R(0);
  for (uint i = k + 1u; i < p.rows; ++i) most = max(most, largest_part(at(i, k)));
  return most;
}

void products(uint k, uint j, uint part, R unit) {
  C dot = C(0);
  if (j < p.columns)
    for (uint i = k + 1u + part; i < p.rows; i += uint(LANES))
      dot += mul_conj(at(i, k) * unit, j == k ? at(i, j) * unit : at(i, j));  // no square of a tiny number
  partials[gl_LocalInvocationID.x] = dot;
  sync();  // products are there
}

void reflect(uint k) {
  const uint part = gl_LocalInvocationID.x % uint(LANES), slot = gl_LocalInvocationID.x / uint(LANES);
  const C alpha = at(k, k);
  R unit = R(1);
  C top = k + slot < p.columns ? at(k, k + slot) : C(0);
  products(k, k + slot, part, unit);
  R squares = real_part(sum_of(0u));
  if (!(squares > SMALLEST && squares < LARGEST)) {  // the same for all invocations
    const R most = largest_below(k);
    if (most > R(0) && most < R(1) / R(0)) unit = R(1) / max(most, TINY);
    sync();  // all have read the first products
    products(k, k + slot, part, unit);
    squares = real_part(sum_of(0u));
  }
  const Reflection r = reflection_of(alpha, root(squares) / unit);
  const C scale = r.scale / unit;
  for (uint first = k; first < p.columns; first += uint(LOCAL / LANES)) {
    const uint j = first + slot;
    if (first > k) {
      top = j < p.columns ? at(k, j) : C(0);
      products(k, j, part, unit);
    }
    if (j > k && j < p.columns) {
      const C w = mul_conj(r.tau, top + mul_conj(scale, sum_of(slot)));
      const C ws = mul(w, r.scale);
      for (uint i = k + 1u + part; i < p.rows; i += uint(LANES)) put(i, j, at(i, j) - mul(ws, at(i, k)));
      if (part == 0u) put(k, j, top - w);
    }
    if (j == k && part == 0u) {
      put(k, k, from_real(r.beta));
      scales[k] = r.scale;
      ScalarRef(p.tau).v[linear_group() * p.tau_batch + k] = r.tau;
    }
    sync();  // columns are reflected, products read
  }
}

void main() {
  origin = p.a + uint64_t(linear_group()) * uint64_t(p.a_batch) * uint64_t(C_BYTES);
  const uint count = p.rows * p.columns, lane = gl_LocalInvocationID.x;
  if (IN_SHARED)
    for (uint e = lane; e < count; e += uint(LOCAL))
      put(e % p.rows, e / p.rows, ScalarRef(origin).v[e / p.rows * p.a_column + e % p.rows]);
  sync();  // the matrix is loaded
  const uint steps = min(p.rows, p.columns);
  for (uint k = 0u; k < steps; ++k) reflect(k);
  for (uint e = lane; e < count; e += uint(LOCAL)) {
    const uint i = e % p.rows, j = e / p.rows;
    const C x = at(i, j);
    ScalarRef(origin).v[j * p.a_column + i] = i > j && j < steps ? mul(x, scales[j]) : x;
  }
}
