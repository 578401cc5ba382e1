#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
// Columns first .. first + steps - 1 of h become those of a Hessenberg matrix: h = P h P, z = z P by Hermitian
// reflections P = I - f w w^H, which take what stands below a column's diagonal to its first element; w stays there
// until P is done. A workgroup has a matrix; an invocation has columns of h, then rows of h and z. Column-major, dense,
// scaled: squares do not overflow, and what underflows is no part of the matrix.
layout(constant_id = 0) const int LOCAL = 32;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HAS_VECTORS = true;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t h, z;
  uint n, first, steps;
};
#include "common/params.glsl"

shared R partials[LOCAL];
uint lane;
uint64_t h_start, z_start;

uint64_t place(uint i, uint j) { return uint64_t(j) * uint64_t(p.n) + uint64_t(i); }
C get(uint64_t start, uint i, uint j) { return load_number(start, int64_t(place(i, j))); }
void put(uint64_t start, uint i, uint j, C x) { store_number(start, int64_t(place(i, j)), x); }
void sync() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                 gl_SemanticsAcquireRelease);
}

// x P of rows of x, whose columns from k + 1 on change.
void reflect_rows(uint64_t start, uint k, C w0, R factor) {
  for (uint i = lane; i < p.n; i += uint(LOCAL)) {
    C dot = mul(get(start, i, k + 1u), w0);
    for (uint j = k + 2u; j < p.n; ++j) dot += mul(get(start, i, j), get(h_start, j, k));
    dot *= factor;
    put(start, i, k + 1u, get(start, i, k + 1u) - mul_conj(w0, dot));
    for (uint j = k + 2u; j < p.n; ++j) put(start, i, j, get(start, i, j) - mul_conj(get(h_start, j, k), dot));
  }
}
void reflect_columns(uint k, C w0, R factor) {
  for (uint j = k + 1u + lane; j < p.n; j += uint(LOCAL)) {
    C dot = mul_conj(w0, get(h_start, k + 1u, j));
    for (uint i = k + 2u; i < p.n; ++i) dot += mul_conj(get(h_start, i, k), get(h_start, i, j));
    dot *= factor;
    put(h_start, k + 1u, j, get(h_start, k + 1u, j) - mul(w0, dot));
    for (uint i = k + 2u; i < p.n; ++i) put(h_start, i, j, get(h_start, i, j) - mul(get(h_start, i, k), dot));
  }
}

void reflect(uint k) {
  R squares = R(0);
  for (uint i = k + 2u + lane; i < p.n; i += uint(LOCAL)) squares += square(get(h_start, i, k));
  partials[lane] = squares;
  const C alpha = get(h_start, k + 1u, k);
  sync();  // sums are there, alpha is read
  squares = R(0);
  for (int l = 0; l < LOCAL; ++l) squares += partials[l];
  const bool works = squares > SMALLEST;  // the same for all invocations
  if (works) {
    const R size = magnitude(alpha), norm = root(squares + size * size);
    const C phase = size > R(0) ? alpha / size : from_real(R(1));
    const C w0 = alpha + phase * norm;
    const R factor = R(1) / (norm * (norm + size));
    reflect_columns(k, w0, factor);
    sync();  // columns are reflected
    reflect_rows(h_start, k, w0, factor);
    if (HAS_VECTORS) reflect_rows(z_start, k, w0, factor);
    if (lane == 0u) put(h_start, k + 1u, k, phase * -norm);
  }
  sync();  // rows are reflected, sums are read
  for (uint i = k + 2u + lane; i < p.n; i += uint(LOCAL)) put(h_start, i, k, C(0));
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint64_t skipped = uint64_t(linear_group()) * uint64_t(p.n) * uint64_t(p.n) * uint64_t(C_BYTES);
  h_start = p.h + skipped;
  z_start = p.z + skipped;
  for (uint s = 0u; s < p.steps; ++s) reflect(p.first + s);
}
