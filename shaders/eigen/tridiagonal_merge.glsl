// Shared by the kernels that join blocks of a tridiagonal matrix, two and two (Cuppen; Gu and Eisenstat: A
// divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem, 1995). With both blocks' eigenvectors Q1 and
// Q2, T = Q (D + rho z z^T) Q^T, and Q times the eigenvectors of D + rho z z^T are those of T. Matrices are padded to n
// rows, blocks are of equal sizes, and a merge of `size` rows has the elements from merge * size on of each field.
#include "common/indexing.glsl"
#include "eigen/finite.glsl"

struct Params {
  uint64_t values, vectors;  // of both blocks: [batches, n], [merges, 2, size / 2, size / 2]
  uint64_t joined, inner;    // values of the whole [batches, n], vectors of D + rho z z^T [merges, size, size]
  uint64_t beside;           // [batches, real - 1]
  uint64_t numbers, places;  // [FIELDS, batches, n], [PLACES, batches, n]
  uint64_t counts, rhos;     // [merges, 2]: poles, rotations; [merges]
  uint n, real, size, total; // total: batches * n
  uint turn, turns;
};
#include "common/params.glsl"

// Of numbers: the poles d and their z in order; below and above the distance of a root from its origin; the origin;
// the corrected z; rotations. The poles past the number of them were deflated: `order` says of all which column of Q
// they belong to.
const uint POLE = 0u, Z = 1u, BELOW = 2u, ABOVE = 3u, ORIGIN = 4u, WEIGHT = 5u, COSINE = 6u, SINE = 7u;
const uint ORDER = 0u, FIRST = 1u, SECOND = 2u;
R number(uint field, uint i) { return RealRef(p.numbers).v[field * p.total + i]; }
void put_number(uint field, uint i, R x) { RealRef(p.numbers).v[field * p.total + i] = x; }
uint place(uint field, uint i) { return U32Ref(p.places + uint64_t(field * p.total + i) * 4ul).v; }
void put_place(uint field, uint i, uint x) { U32Ref(p.places + uint64_t(field * p.total + i) * 4ul).v = x; }
uint poles_of(uint merge) { return U32Ref(p.counts + uint64_t(merge) * 8ul).v; }
uint rotations_of(uint merge) { return U32Ref(p.counts + uint64_t(merge) * 8ul + 4ul).v; }
R rho_of(uint merge) { return RealRef(p.rhos).v[merge]; }

// pole - (origin + x), to a rounding. precise: NVIDIA's compiler adds the last two first, outside of loops over poles,
// and x is lost in doubles.
R distance_to(R pole, R origin, R x) {
  precise const R to_origin = pole - origin;
  precise const R distance_ = to_origin - x;
  return distance_;
}
