// The numbers C of a variant (axis C float double vec2 dvec2; the last two are complex ones, as pairs), their real type
// R, and arithmetic. C * R and C / R are the language's. The file that includes this has the lines `feature float64`.
#ifndef AULE_LINALG_NUMBER_GLSL
#define AULE_LINALG_NUMBER_GLSL
#if defined(C_double) || defined(C_dvec2)
#define R double
#define R_ALIGN 8
#else
#define R float
#define R_ALIGN 4
#endif
#ifdef C_dvec2
#define C_ALIGN 16
#elif defined(C_double) || defined(C_vec2)
#define C_ALIGN 8
#else
#define C_ALIGN 4
#endif
const int C_BYTES = C_ALIGN, R_BYTES = R_ALIGN;
layout(buffer_reference, scalar, buffer_reference_align = C_ALIGN) buffer NumberRef { C v; };
// Of arrays, whose pairs may be at any whole number of their parts.
layout(buffer_reference, scalar, buffer_reference_align = R_ALIGN) buffer ScalarRef { C v[]; };
layout(buffer_reference, scalar, buffer_reference_align = R_ALIGN) buffer RealRef { R v[]; };

C load_number(uint64_t base, int64_t i) { return NumberRef(base + uint64_t(i * C_BYTES)).v; }
void store_number(uint64_t base, int64_t i, C x) { NumberRef(base + uint64_t(i * C_BYTES)).v = x; }

#if defined(C_vec2) || defined(C_dvec2)
C mul(C a, C b) { return C(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
C conjugate(C a) { return C(a.x, -a.y); }
C from_real(R a) { return C(a, R(0)); }
R real_part(C a) { return a.x; }
R imag_part(C a) { return a.y; }
R largest_part(C a) { return max(abs(a.x), abs(a.y)); }
R square(C a) { return a.x * a.x + a.y * a.y; }
R pivot_size(C a) { return abs(a.x) + abs(a.y); }  // by which LAPACK chooses pivots
// By the larger part of b (Smith), which neither overflows nor loses a small one.
C over(C a, C b) {
  if (abs(b.x) >= abs(b.y)) {
    const R r = b.y / b.x, d = b.x + b.y * r;
    return C((a.x + a.y * r) / d, (a.y - a.x * r) / d);
  }
  const R r = b.x / b.y, d = b.x * r + b.y;
  return C((a.x * r + a.y) / d, (a.y * r - a.x) / d);
}
#else
C mul(C a, C b) { return a * b; }
C conjugate(C a) { return a; }
C from_real(R a) { return a; }
R real_part(C a) { return a; }
R imag_part(C a) { return R(0); }
R largest_part(C a) { return abs(a); }
R square(C a) { return a * a; }
R pivot_size(C a) { return abs(a); }
C over(C a, C b) { return a / b; }
#endif
// conj(a) b
C mul_conj(C a, C b) { return mul(conjugate(a), b); }
#endif
