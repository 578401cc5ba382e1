#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The last step of a transform of 2 n reals: Z is that of the n complex numbers made of the reals in pairs. With a =
// Z[k], b = conj(Z[n - k]) and w = exp(-2 pi i / 2 n): X[k] = (a + b) / 2 - i w^k (a - b) / 2, and X[n - k] is the
// conjugate of the difference. One invocation for both; Z has n values of a sequence, X has n + 1.
layout(local_size_x = 64) in;
layout(constant_id = 0) const bool SEQUENCE_FIRST = false;  // neighbouring invocations have neighbouring sequences
#include "common/indexing.glsl"
#include "fft/complex.glsl"

struct Params {
  uint64_t in_, out_, end_roots;
  uint sizes[4], out_strides[4];  // of the sequences' dimensions, the fastest first
  uint out_step, in_step, in_sequence;
  uint n, items;  // items: invocations of all sequences
};
#include "common/params.glsl"

void main() {
  const uint64_t item = linear_invocation();
  if (item >= uint64_t(p.items)) return;
  const uint q = uint(item), per_sequence = p.n / 2u + 1u, sequences = p.items / per_sequence;
  const uint k = SEQUENCE_FIRST ? q / sequences : q % per_sequence;
  uint sequence = SEQUENCE_FIRST ? q % sequences : q / per_sequence;
  const uint start = sequence * p.in_sequence;
  const V a = ComplexRef(p.in_).v[start + k * p.in_step];
  const V b = c_conj(ComplexRef(p.in_).v[start + (k == 0u ? 0u : p.n - k) * p.in_step]);
  const V even = (a + b) * C(0.5), odd = over_i(c_mul(a - b, root(p.end_roots, k))) * C(0.5);
  uint out_start = 0u;
  for (int d = 0; d < 4 && sequence > 0u; ++d) {
    out_start += sequence % p.sizes[d] * p.out_strides[d];
    sequence /= p.sizes[d];
  }
  ComplexRef(p.out_).v[out_start + k * p.out_step] = even + odd;
  ComplexRef(p.out_).v[out_start + (p.n - k) * p.out_step] = c_conj(even - odd);
}
