#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// e of Ogita's and Aishima's step v + v e, of first order: for nearly orthonormal eigenvectors v of h, gram = v^H v,
// s = v^H h v, r = I - gram, w = diag(s) / diag(gram): e[i, j] = r[i, j] / 2 + (s[i, j] + r[i, j] (w[i] + w[j]) / 2) /
// (w[j] - w[i]). Where the second term is above `most`, values are too near to each other, and the first makes the
// vectors orthonormal alone. An invocation has an element. Column-major, dense.
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t s, gram, e;
  uint n, batches;
  float most;
};
#include "common/params.glsl"

void main() {
  const uint64_t element = linear_invocation(), count = uint64_t(p.n) * uint64_t(p.n);
  if (element >= uint64_t(p.batches) * count) return;
  const uint64_t first = element / count * count;
  const uint i = uint((element - first) % uint64_t(p.n)), j = uint((element - first) / uint64_t(p.n));
  ScalarRef s = ScalarRef(p.s + first * uint64_t(C_BYTES)), gram = ScalarRef(p.gram + first * uint64_t(C_BYTES));
  const uint at_i = i * p.n + i, at_j = j * p.n + j, own = j * p.n + i;
  // precise: the gap of [j, i] is the negative of this one to the last bit, or e would not keep vectors orthonormal.
  precise const R value_i = real_part(s.v[at_i]) / real_part(gram.v[at_i]);
  precise const R value_j = real_part(s.v[at_j]) / real_part(gram.v[at_j]);
  precise const R gap = value_j - value_i;
  // Both are Hermitian but for roundings, which a small gap would make large.
  const uint mirrored = i * p.n + j;
  precise const C r = from_real(i == j ? R(1) : R(0)) - (gram.v[own] + conjugate(gram.v[mirrored])) * R(0.5);
  precise const C coupling = (s.v[own] + conjugate(s.v[mirrored])) * R(0.5) + r * ((value_i + value_j) * R(0.5));
  const bool is_apart = i != j && magnitude(coupling) < R(p.most) * abs(gap);  // the same for [j, i]
  ScalarRef(p.e + first * uint64_t(C_BYTES)).v[own] = r * R(0.5) + (is_apart ? coupling / gap : C(0));
}
