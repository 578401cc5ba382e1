// Householder reflections H = I - tau v v^H with v = x scale below v[0] = 1 and H^H (alpha, x) = (beta, 0), beta real
// (LAPACK's larfg). alpha: the first element; norm: of those after it.
#ifndef AULE_LINALG_REFLECTION_GLSL
#define AULE_LINALG_REFLECTION_GLSL
#include "linalg/rounded.glsl"

struct Reflection {
  C tau, scale;  // v = x * scale
  R beta;
};
Reflection reflection_of(C alpha, R norm) {
  Reflection r = Reflection(C(0), from_real(R(1)), real_part(alpha));
  if (norm == R(0) && imag_part(alpha) == R(0)) return r;
  const R large = max(largest_part(alpha), norm);
  if (large < TINY) return r;
  const C a = alpha / large;  // sizes near TINY lose their bits
  const R size = hypotenuse(magnitude(a), norm / large), b = real_part(alpha) < R(0) ? size : -size;
  r.beta = b * large;
  r.tau = (from_real(b) - a) / b;
  const C d = a - from_real(b);  // no cancellation in the real part
  r.scale = conjugate(d) / square(d) / large;
  return r;
}
#endif
