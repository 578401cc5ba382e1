#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
// Eigenvectors x of triangular matrices t, (t - t[j, j] I) x = 0, x[j] = 1 at first: rows end - 1 .. first, from the
// last one up. An invocation has a vector, and divides it by what grows too large. Divisors that vanish are small
// ones instead. t is column-major, x row-major.
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t t, x;
  uint n, batches, first, end;
};
#include "common/params.glsl"

void main() {
  const uint64_t vector = linear_invocation();
  if (vector >= uint64_t(p.batches) * uint64_t(p.n)) return;
  const uint j = uint(vector % uint64_t(p.n)), n = p.n;
  const uint64_t skipped = vector / uint64_t(n) * uint64_t(n) * uint64_t(n) * uint64_t(C_BYTES);
  const uint64_t t = p.t + skipped, x = p.x + skipped;
  const C value = load_number(t, int64_t(j) * int64_t(n) + int64_t(j));
  const R least = max(EPS * pivot_size(value), EPS * EPS);
  for (uint i = p.end; i-- > p.first;) {
    const int64_t own = int64_t(i) * int64_t(n) + int64_t(j);
    C sum = C(0);
    for (uint l = i + 1u; l <= j; ++l)
      sum += mul(load_number(t, int64_t(l) * int64_t(n) + int64_t(i)),
                 load_number(x, int64_t(l) * int64_t(n) + int64_t(j)));
    C divisor = value - load_number(t, int64_t(i) * int64_t(n) + int64_t(i));
    if (!(pivot_size(divisor) > least)) divisor = from_real(least);
    const C result = i > j ? C(0) : i == j ? from_real(R(1)) : over(sum, divisor);
    store_number(x, own, result);
    const R size = largest_part(result);
    if (size > R(1e10))
      for (uint l = i; l <= j; ++l) {
        const int64_t at = int64_t(l) * int64_t(n) + int64_t(j);
        store_number(x, at, load_number(x, at) / size);
      }
  }
}
