#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The z for which the roots that were found are exact (Gu and Eisenstat), so that eigenvectors are orthogonal to a
// rounding however near to each other roots are: z[j]^2 = prod (x[i] - d[j]) / prod (d[i] - d[j]), in pairs. An
// invocation has one.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "eigen/tridiagonal_merge.glsl"

void main() {
  const uint64_t invocation = linear_invocation();
  if (invocation >= uint64_t(p.total)) return;
  const uint at = uint(invocation), merge = at / p.size, base = merge * p.size, j = at - base, poles = poles_of(merge);
  if (j >= poles) return;
  const R own = number(POLE, at);
  R product = R(1), pole = number(POLE, base);
  for (uint i = 0u; i < poles; ++i) {
    const R origin = number(ORIGIN, base + i), side = origin == pole ? R(1) : R(-1);
    const R next = i + 1u < poles ? number(POLE, base + i + 1u) : R(0);
    const R distance_ = -distance_to(own, origin, side * number(ABOVE, base + i));
    product *= i < j ? distance_ / (pole - own) : i + 1u < poles ? distance_ / (next - own) : distance_;
    pole = next;
  }
  const R size = root(abs(product));
  put_number(WEIGHT, at, number(Z, at) < R(0) ? -size : size);
}
