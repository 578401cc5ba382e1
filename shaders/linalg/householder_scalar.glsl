// The scalar C of a variant (axis C float double vec2 dvec2; the last two are complex numbers as pairs), its real type
// R, and their arithmetic. C * R and C / R are the language's.
#ifndef AULE_HOUSEHOLDER_SCALAR_GLSL
#define AULE_HOUSEHOLDER_SCALAR_GLSL
#ifdef C_dvec2
const uint C_BYTES = 16u, R_BYTES = 8u;
#elif defined(C_double)
const uint C_BYTES = 8u, R_BYTES = 8u;
#elif defined(C_vec2)
const uint C_BYTES = 8u, R_BYTES = 4u;
#else
const uint C_BYTES = 4u, R_BYTES = 4u;
#endif
#if defined(C_double) || defined(C_dvec2)
#define R double
const int LEAST_EXPONENT = -1000;
const R TINY = 1e-306lf;  // a little above the least normal number: its inverse is finite
const R SMALLEST = 1e-290lf, LARGEST = 1e290lf, EPS = 2.220446049250313e-16lf;  // SMALLEST and LARGEST: of squares
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer ScalarRef { C v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer RealRef { R v[]; };
#else
#define R float
const int LEAST_EXPONENT = -120;
const R TINY = 1e-37;
const R SMALLEST = 1e-30, LARGEST = 1e30, EPS = 1.1920929e-7;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer ScalarRef { C v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer RealRef { R v[]; };
#endif

// The root and the quotient to a rounding: a driver's own may be off by three, all to one side, and that adds up over
// rotations and reflections, which then stretch.
R root(R x) {
  const R r = sqrt(x);
  return x > SMALLEST && x < LARGEST ? r - fma(r, r, -x) / (R(2) * r) : r;
}
R quotient(R a, R b) {
  const R q = a / b;
  return fma(fma(-q, b, a), R(1) / b, q);
}

// sqrt(a^2 + b^2) for a, b >= 0, without overflow in between
R hypotenuse(R a, R b) {
  const R m = max(a, b), s = min(a, b);
  if (!(m > TINY && m < R(1) / TINY)) return m + s;
  const R q = quotient(s, m);
  return m * root(fma(q, q, R(1)));
}

#if defined(C_vec2) || defined(C_dvec2)
C mul(C a, C b) { return C(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
C conjugate(C a) { return C(a.x, -a.y); }
C from_real(R a) { return C(a, R(0)); }
R real_part(C a) { return a.x; }
R imag_part(C a) { return a.y; }
R largest_part(C a) { return max(abs(a.x), abs(a.y)); }
R square(C a) { return a.x * a.x + a.y * a.y; }
R magnitude(C a) { return hypotenuse(abs(a.x), abs(a.y)); }
#else
C mul(C a, C b) { return a * b; }
C conjugate(C a) { return a; }
C from_real(R a) { return a; }
R real_part(C a) { return a; }
R imag_part(C a) { return R(0); }
R largest_part(C a) { return abs(a); }
R square(C a) { return a * a; }
R magnitude(C a) { return abs(a); }
#endif
// conj(a) b
C mul_conj(C a, C b) { return mul(conjugate(a), b); }
#endif
