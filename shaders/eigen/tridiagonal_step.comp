#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// One column of A = Q T Q^H, T real and tridiagonal (LAPACK's hetrd and latrd). A panel's columns are reduced one after
// the other; what reflections do to the columns behind the panel is a product, A - V W^H - W V^H, after it.
//
// Column j takes one launch. It finishes column step - 1 of W, takes V W^H + W V^H from column j of A, finds its
// reflection, and multiplies A by v. Every workgroup does the first three for all rows, because another launch would
// cost more; the product is done for its own rows. Sums over rows are left to the next launch, in parts of workgroups.
// step = 32: W alone is finished. What is expected: docs/ladders/eigh.md
layout(constant_id = 0) const int LOCAL = 256;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool IN_SHARED = true;
layout(constant_id = 2) const int ELEMS = 1024;  // of the column in shared memory
layout(constant_id = 3) const int LANES = 32;    // that share a row's product
const uint WIDTH = 32, SLOTS = 64;               // columns of a panel, sums of a workgroup
#include "common/indexing.glsl"
#include "linalg/reflection.glsl"

struct Params {
  uint64_t a, panel;           // [n, n], [V W V]: by columns
  uint64_t product, partials;  // of A and v [2, batches, n]; sums [2, batches, groups_most, SLOTS]
  uint64_t vectors, tau;       // [n, n] by columns; [n - 1]
  uint64_t diagonal, beside;   // of T: [n], [n - 1]
  uint64_t scratch;            // [batches, groups_most, n]: columns that shared memory does not hold
  uint n, first, step, groups, groups_before, groups_most, batches;
};
#include "common/params.glsl"

shared C column_[ELEMS];
shared C partials_[LOCAL];
shared C sums[SLOTS];
shared C row_v[WIDTH];
shared C row_w[WIDTH];
uint64_t scratch;

C at(uint i) {
  if (IN_SHARED) return column_[i];
  return ScalarRef(scratch).v[i];
}
void put(uint i, C x) {
  if (IN_SHARED) column_[i] = x;
  else ScalarRef(scratch).v[i] = x;
}
// Orders what the workgroup wrote to shared memory and to its own rows.
void sync() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                 gl_SemanticsAcquireRelease);
}
uint64_t of_batch(uint64_t base, uint64_t batch, uint64_t elements) {
  return base + batch * elements * uint64_t(C_BYTES);
}

R sum_of_all(R mine) {
  const uint lane = gl_LocalInvocationID.x;
  partials_[lane] = from_real(mine);
  barrier();  // partials are there
  R sum = R(0);
  if (lane < 32u)
    for (uint l = lane; l < uint(LOCAL); l += 32u) sum += real_part(partials_[l]);
  barrier();  // they are read
  if (lane < 32u) partials_[lane] = from_real(sum);
  barrier();  // 32 sums are there
  sum = R(0);
  for (uint l = 0u; l < 32u; ++l) sum += real_part(partials_[l]);
  barrier();  // they are read
  return sum;
}

uint lane, group, j, known, slot, begin, end;  // known: finished columns of V and W
uint64_t batch;
ScalarRef panel, product;
C tau, alpha, w_j;  // of the column before

ScalarRef product_of(uint parity) {
  return ScalarRef(of_batch(p.product, uint64_t(parity) * uint64_t(p.batches) + batch, uint64_t(p.n)));
}
ScalarRef partials_of(uint parity) {
  const uint64_t of_matrix = uint64_t(p.groups_most * SLOTS);
  return ScalarRef(of_batch(p.partials, uint64_t(parity) * uint64_t(p.batches) + batch, of_matrix));
}

// W^H v, V^H v and (A v)^H v of the column before, and with them w[j] and what every row of w needs.
void finish_sums(ScalarRef before) {
  ScalarRef parts = partials_of(p.step & 1u ^ 1u);
  const uint share = uint(LOCAL) / SLOTS;
  C part = C(0);
  if (slot <= 2u * known)
    for (uint g = lane / SLOTS; g < p.groups_before; g += share) part += parts.v[g * SLOTS + slot];
  partials_[lane] = part;
  for (uint l = lane; l < known; l += uint(LOCAL)) {
    row_v[l] = panel.v[l * p.n + j];
    row_w[l] = panel.v[(WIDTH + l) * p.n + j];
  }
  tau = ScalarRef(of_batch(p.tau, batch, uint64_t(p.n - 1u))).v[j - 1u];
  w_j = before.v[j];
  barrier();  // sums of shares and rows are there
  if (lane < SLOTS) {
    for (uint s = 1u; s < share; ++s) part += partials_[lane + s * SLOTS];
    sums[lane] = part;
  }
  barrier();  // sums are there, those of shares read
  C along = sums[2u * known];
  for (uint l = 0u; l < known; ++l) {
    along -= mul_conj(sums[l], sums[known + l]) + mul_conj(sums[known + l], sums[l]);
    w_j -= mul(row_v[l], sums[l]) + mul(row_w[l], sums[known + l]);
  }
  alpha = -mul(mul(tau, conjugate(tau)), along) * R(0.5);
  w_j = mul(tau, w_j) + alpha;  // v[j] = 1
}

// Finishes row r of W, and takes V W^H + W V^H from x, which is A[r, j].
C finished_row(uint r, ScalarRef before, C x) {
  C w = before.v[r];
  for (uint l = 0u; l < known; ++l) {
    const C v_l = panel.v[l * p.n + r], w_l = panel.v[(WIDTH + l) * p.n + r];
    w -= mul(v_l, sums[l]) + mul(w_l, sums[known + l]);
    x -= mul(v_l, conjugate(row_w[l])) + mul(w_l, conjugate(row_v[l]));
  }
  const C v = panel.v[known * p.n + r];
  w = mul(tau, w) + mul(alpha, v);
  if (r >= begin && r < end) panel.v[(WIDTH + known) * p.n + r] = w;
  return x - mul(v, conjugate(w_j)) - w;
}

// v of the column, in its place and where others read it.
void put_reflection(R squares) {
  // Elements are at most 1 beside the matrix's largest. What is lost where the squares are near the least number is
  // below its roundings; its quotients would not be.
  const bool is_zero = !(squares > SMALLEST);
  const Reflection reflection = reflection_of(at(1u), is_zero ? R(0) : root(squares));
  sync();  // its first element is read
  if (group == 0u && lane == 0u) {
    RealRef(p.beside).v[uint(batch) * (p.n - 1u) + j] = reflection.beta;
    ScalarRef(of_batch(p.tau, batch, uint64_t(p.n - 1u))).v[j] = reflection.tau;
  }
  ScalarRef vectors = ScalarRef(of_batch(p.vectors, batch * uint64_t(p.n) + uint64_t(j), uint64_t(p.n)));
  for (uint r = j + 1u + lane; r < p.n; r += uint(LOCAL)) {
    const C v = r == j + 1u ? from_real(R(1)) : is_zero ? C(0) : mul(at(r - j), reflection.scale);
    put(r - j, v);
    if (r >= begin && r < end) {
      panel.v[p.step * p.n + r] = v;
      panel.v[(2u * WIDTH + p.step) * p.n + r] = v;
      vectors.v[r] = v;
    }
  }
  sync();  // v is there
}

void multiply(uint64_t origin) {
  const uint part = lane % uint(LANES);
  for (uint base = begin; base < end; base += uint(LOCAL / LANES)) {
    const uint r = base + lane / uint(LANES);
    const bool is_own = r < end && r > j;
    C sum = C(0);
    if (is_own) {
      const uint64_t row = of_batch(origin, uint64_t(r), uint64_t(p.n));  // of the conjugate: a column
      for (uint c = j + 1u + part; c < p.n; c += uint(LANES)) sum += mul_conj(ScalarRef(row).v[c], at(c - j));
    }
    partials_[lane] = sum;
    barrier();  // partial sums are there
    if (is_own && part == 0u) {
      for (uint l = 1u; l < uint(LANES); ++l) sum += partials_[lane + l];
      product.v[r] = sum;
    }
    sync();  // they are read, and the product is there
  }
}

// W^H v, V^H v and (A v)^H v of the workgroup's rows.
void leave_sums() {
  const uint slots = 2u * p.step + 1u, share = uint(LOCAL) / SLOTS;
  C sum = C(0);
  if (slot < slots)
    for (uint r = max(begin, j + 1u) + lane / SLOTS; r < end; r += share) {
      const C x = slot == 2u * p.step ? product.v[r]
                  : slot < p.step     ? panel.v[(WIDTH + slot) * p.n + r]
                                      : panel.v[(slot - p.step) * p.n + r];
      sum += mul_conj(x, at(r - j));
    }
  partials_[lane] = sum;
  barrier();  // sums of shares are there
  if (lane < slots) {
    for (uint s = 1u; s < share; ++s) sum += partials_[lane + s * SLOTS];
    partials_of(p.step & 1u).v[group * SLOTS + lane] = sum;
  }
}

void main() {
  lane = gl_LocalInvocationID.x;
  group = linear_group() % p.groups;
  batch = uint64_t(linear_group() / p.groups);
  if (batch >= uint64_t(p.batches)) return;  // the whole workgroup leaves
  j = p.first + p.step;
  known = max(p.step, 1u) - 1u;
  slot = lane % SLOTS;
  const bool is_last = p.step == WIDTH;
  const uint rows = p.n - j, slice = (rows + p.groups - 1u) / p.groups;
  begin = min(j + group * slice, p.n);
  end = min(begin + slice, p.n);
  panel = ScalarRef(of_batch(p.panel, batch, uint64_t(3u * WIDTH) * uint64_t(p.n)));
  product = product_of(p.step & 1u);
  scratch = of_batch(p.scratch, batch * uint64_t(p.groups_most) + uint64_t(group), uint64_t(p.n));
  const uint64_t origin = of_batch(p.a, batch, uint64_t(p.n) * uint64_t(p.n));
  const uint64_t column = of_batch(origin, uint64_t(j), uint64_t(p.n));
  ScalarRef before = product_of(p.step & 1u ^ 1u);

  if (p.step > 0u) finish_sums(before);
  R squares = R(0);
  for (uint r = j + lane; r < p.n; r += uint(LOCAL)) {
    C x = is_last ? C(0) : ScalarRef(column).v[r];
    if (p.step > 0u) x = finished_row(r, before, x);
    put(r - j, x);
    if (r > j + 1u) squares += square(x);
  }
  if (is_last) return;  // the whole workgroup
  squares = sum_of_all(squares);
  sync();  // the column is there
  if (group == 0u && lane == 0u) RealRef(p.diagonal).v[uint(batch) * p.n + j] = real_part(at(0u));
  if (rows == 1u) return;  // as above
  put_reflection(squares);
  multiply(origin);
  leave_sums();
}
