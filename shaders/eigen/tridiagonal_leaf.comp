#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Eigenvalues and eigenvectors of the small tridiagonal matrices that a large one is torn into, by implicit QL
// (EISPACK's imtql2). Where blocks meet, T = diag(T1, T2) + |e| u u^T with u = (0 .. 0, 1, sign(e), 0 .. 0): |e| is
// taken from both diagonals here, on all levels at once. Rows past the matrix get a value that no eigenvalue has.
//
// A workgroup has a block. Each invocation has a row of the vectors, and steps through the same rotations on its own
// copy of the matrix, so that none waits.
layout(local_size_x = 32) in;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t diagonal, beside;  // [batches, n], [batches, n - 1]
  uint64_t values, vectors;   // [blocks, size], [blocks, size, size]
  uint n, size, blocks, batches;  // blocks of a matrix
};
#include "common/params.glsl"
#include "eigen/finite.glsl"

const uint SIDE = 32u, TURNS = 40u;
shared R d_[SIDE * SIDE];
shared R e_[SIDE * SIDE];
shared R z_[SIDE * SIDE];
uint lane;

R beside(uint batch, uint row) {  // between row and row + 1
  return row + 1u < p.n ? finite(RealRef(p.beside).v[batch * (p.n - 1u) + row]) : R(0);
}

void rotate(uint i, R c, R s) {
  const R z = z_[(i + 1u) * SIDE + lane], y = z_[i * SIDE + lane];
  z_[(i + 1u) * SIDE + lane] = s * y + c * z;
  z_[i * SIDE + lane] = c * y - s * z;
}

// One QL sweep over rows l to m.
void sweep(uint l, uint m) {
  R g = quotient(d_[(l + 1u) * SIDE + lane] - d_[l * SIDE + lane], R(2) * e_[l * SIDE + lane]);
  const R size = hypotenuse(abs(g), R(1));
  g = d_[m * SIDE + lane] - d_[l * SIDE + lane] + quotient(e_[l * SIDE + lane], g < R(0) ? g - size : g + size);
  R s = R(1), c = R(1), shift = R(0);
  for (uint i = m; i-- > l;) {
    const R f = s * e_[i * SIDE + lane], b = c * e_[i * SIDE + lane];
    const R r = hypotenuse(abs(f), abs(g));
    e_[(i + 1u) * SIDE + lane] = r;
    if (r == R(0)) {
      d_[(i + 1u) * SIDE + lane] -= shift;
      e_[m * SIDE + lane] = R(0);
      return;
    }
    s = quotient(f, r);
    c = quotient(g, r);
    g = d_[(i + 1u) * SIDE + lane] - shift;
    const R t = (d_[i * SIDE + lane] - g) * s + R(2) * c * b;
    shift = s * t;
    d_[(i + 1u) * SIDE + lane] = g + shift;
    g = c * t - b;
    rotate(i, c, s);
  }
  d_[l * SIDE + lane] -= shift;
  e_[l * SIDE + lane] = g;
  e_[m * SIDE + lane] = R(0);
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint block = linear_group(), batch = block / p.blocks;
  if (batch >= p.batches || lane >= p.size) return;  // nobody waits for anybody
  const uint first = (block - batch * p.blocks) * p.size;
  for (uint i = 0u; i < p.size; ++i) {
    const uint row = first + i;
    R d = FAR;
    if (row < p.n) {
      d = finite(RealRef(p.diagonal).v[batch * p.n + row]);
      if (i == 0u && row > 0u) d -= abs(beside(batch, row - 1u));
      if (i + 1u == p.size) d -= abs(beside(batch, row));
    }
    d_[i * SIDE + lane] = d;
    e_[i * SIDE + lane] = i + 1u < p.size ? beside(batch, row) : R(0);
    z_[i * SIDE + lane] = i == lane ? R(1) : R(0);
  }
  for (uint l = 0u; l + 1u < p.size; ++l) {
    for (uint turn = 0u; turn < TURNS; ++turn) {
      uint m = l;
      for (; m + 1u < p.size; ++m) {
        const R sum = abs(d_[m * SIDE + lane]) + abs(d_[(m + 1u) * SIDE + lane]);
        if (abs(e_[m * SIDE + lane]) <= max(R(0.5) * EPS * sum, TINY)) break;
      }
      if (m == l) break;
      sweep(l, m);
    }
  }
  RealRef(p.values).v[block * p.size + lane] = d_[lane * SIDE + lane];
  const uint64_t skipped = uint64_t(block) * uint64_t(p.size * p.size * R_BYTES);
  for (uint i = 0u; i < p.size; ++i) RealRef(p.vectors + skipped).v[i * p.size + lane] = z_[i * SIDE + lane];
}
