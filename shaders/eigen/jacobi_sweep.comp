#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// One-sided Jacobi: columns of w are rotated in pairs until all are orthogonal. A workgroup has a matrix's columns, or
// two blocks of them: then a launch is a round of the blocks, which meet as players of a tournament do. In a round,
// each column of the first block meets each of the second; in the blocks' first round, all of both meet. The columns
// lie in shared memory, or where they are. LANES invocations have a pair. Rutishauser's form of the update.
// flags[matrix, s]: sweep s has something to do. NaNs compare as nothing to do. Column-major.
layout(constant_id = 0) const int LOCAL = 32;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int LANES = 8;
layout(constant_id = 2) const bool IN_SHARED = true;
layout(constant_id = 3) const int ELEMS = 1;  // of shared memory, the columns apart by (rows | 1)
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t w, flags;
  uint rows, columns;
  uint block, blocks;  // columns of a block; blocks: even, or 1
  uint round_, sweep, sweeps, flags_of_matrix;
};
#include "common/params.glsl"

shared C tile[ELEMS];
shared C dots[2 * LOCAL];
shared R squares[4 * LOCAL];
shared uint anything[2];
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer FlagRef { uint v[]; };

uint64_t origin;
uint first, second;  // columns where the blocks begin
uint parity = 0u;    // of `dots` and `squares`
bool did_rotate;

uint own_columns() { return p.blocks == 1u ? p.columns : 2u * p.block; }
uint column_of(uint j) { return p.blocks == 1u || j < p.block ? first + j : second + j - p.block; }

C at(uint i, uint j) {
  if (IN_SHARED) return tile[j * (p.rows | 1u) + i];
  return ScalarRef(origin).v[column_of(j) * p.rows + i];
}
void put(uint i, uint j, C x) {
  if (IN_SHARED) tile[j * (p.rows | 1u) + i] = x;
  else ScalarRef(origin).v[column_of(j) * p.rows + i] = x;
}
// Orders what the workgroup wrote to the columns and to shared memory.
void sync() {
  if (IN_SHARED) barrier();
  else controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                      gl_SemanticsAcquireRelease);
}

// Pair q of round r among `players`, an even number: player players - 1 stays, the others go round.
uvec2 opponents(uint players, uint r, uint q) {
  const uint others = players - 1u;
  if (q == 0u) return uvec2(r, others);
  return uvec2((r + q) % others, (r + others - q) % others);
}

// The rotation that makes x and y orthogonal: x' = x - s (t x + conj(u) y), y' = y + s (u x - t y).
void rotate(uint x, uint y, uint part, R xx, R yy, C xy) {
  const R size = magnitude(xy);
  const R tolerance = EPS * max(R(1), R(0.5) * sqrt(R(p.rows)));
  if (!(size > tolerance * sqrt(xx) * sqrt(yy))) return;
  did_rotate = true;
  C u = xy / size;
  u *= R(1.5) - R(0.5) * square(u);  // of length 1 to a rounding
  const R zeta = (yy - xx) / (size * R(2)), far = abs(zeta);
  R tangent = far < R(1e9) ? R(1) / (far + sqrt(R(1) + zeta * zeta)) : R(0.5) / far;
  if (zeta < R(0)) tangent = -tangent;
  const R cosine = quotient(R(1), root(fma(tangent, tangent, R(1))));
  const R s = cosine * tangent, t = quotient(s, R(1) + cosine);
  const C us = u * s;
  const R ts = t * s;
  for (uint i = part; i < p.rows; i += uint(LANES)) {
    const C a = at(i, x), b = at(i, y);
    put(i, x, a - (a * ts + mul_conj(us, b)));
    put(i, y, b + (mul(us, a) - b * ts));
  }
}

void meet(uint x, uint y, uint part, bool is_pair) {
  const uint lane = gl_LocalInvocationID.x, here = parity * uint(LOCAL);
  R xx = R(0), yy = R(0);
  C xy = C(0);
  if (is_pair) {
    for (uint i = part; i < p.rows; i += uint(LANES)) {
      const C a = at(i, x), b = at(i, y);
      xx += square(a);
      yy += square(b);
      xy += mul_conj(a, b);
    }
  }
  if (LANES > 1) {
    dots[here + lane] = xy;
    squares[2u * (here + lane)] = xx;
    squares[2u * (here + lane) + 1u] = yy;
    barrier();  // sums of all lanes are there; those of the meeting before are read
    xx = R(0);
    yy = R(0);
    xy = C(0);
    for (uint l = here + lane - part; l < here + lane - part + uint(LANES); ++l) {
      xy += dots[l];
      xx += squares[2u * l];
      yy += squares[2u * l + 1u];
    }
    parity ^= 1u;
  }
  if (is_pair) rotate(x, y, part, xx, yy, xy);
}

void sweep(bool all_meet) {
  const uint part = gl_LocalInvocationID.x % uint(LANES), slot = gl_LocalInvocationID.x / uint(LANES);
  const uint count = own_columns(), players = (count + 1u) & ~1u, pairs = all_meet ? players / 2u : p.block;
  const uint rounds = all_meet ? players - 1u : p.block;
  for (uint r = 0u; r < rounds; ++r) {
    for (uint base = 0u; base < pairs; base += uint(LOCAL / LANES)) {
      const uint q = base + slot;
      uvec2 pair = all_meet ? opponents(players, r, q) : uvec2(q, p.block + (q + r) % p.block);
      pair = uvec2(min(pair.x, pair.y), max(pair.x, pair.y));
      const bool is_pair =
          q < pairs && pair.y < count && column_of(pair.y) < p.columns && column_of(pair.x) < p.columns;
      meet(pair.x, pair.y, part, is_pair);
    }
    sync();  // this round's rotations are done
  }
}

void main() {
  const uint lane = gl_LocalInvocationID.x, groups = max(p.blocks / 2u, 1u);
  const uint batch = linear_group() / groups;
  origin = p.w + uint64_t(batch) * uint64_t(p.rows * p.columns) * uint64_t(C_BYTES);
  FlagRef flags = FlagRef(p.flags + uint64_t(batch) * uint64_t(p.flags_of_matrix * 4u));
  bool goes_on = flags.v[p.sweep] != 0u;
  if (!goes_on) return;  // the same for all of the workgroup
  uvec2 blocks = uvec2(0u);
  if (p.blocks > 1u) blocks = opponents(p.blocks, p.round_, linear_group() % groups);
  first = min(blocks.x, blocks.y) * p.block;
  second = max(blocks.x, blocks.y) * p.block;
  const uint elems = own_columns() * p.rows;
  if (IN_SHARED)
    for (uint e = lane; e < elems; e += uint(LOCAL))
      if (column_of(e / p.rows) < p.columns)
        put(e % p.rows, e / p.rows, ScalarRef(origin).v[column_of(e / p.rows) * p.rows + e % p.rows]);
  if (lane < 2u) anything[lane] = 0u;
  sync();  // columns are loaded
  for (uint s = 0u; s < p.sweeps && goes_on; ++s) {
    did_rotate = false;
    sweep(p.blocks == 1u || p.round_ == 0u);
    if (lane == 0u) anything[(s + 1u) & 1u] = 0u;
    if (did_rotate) anything[s & 1u] = 1u;
    barrier();  // all have said whether they rotated
    goes_on = anything[s & 1u] != 0u;
  }
  if (IN_SHARED)
    for (uint e = lane; e < elems; e += uint(LOCAL))
      if (column_of(e / p.rows) < p.columns)
        ScalarRef(origin).v[column_of(e / p.rows) * p.rows + e % p.rows] = at(e % p.rows, e / p.rows);
  if (goes_on && lane == 0u) flags.v[p.sweep + p.sweeps] = 1u;
}
