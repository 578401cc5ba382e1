// Numbers of a field, T: float, double, and pairs of them for complex ones (axis C). REAL is the type of their parts.
// The file that includes this has the lines `feature float64` for double and dvec2.
#ifndef AULE_LINALG_NUMBER_GLSL
#define AULE_LINALG_NUMBER_GLSL
#if defined(C_vec2) || defined(C_dvec2)
#define IS_COMPLEX
#endif
#if defined(C_double) || defined(C_dvec2)
#define REAL double
#else
#define REAL float
#endif
#define T C
#ifdef C_dvec2
#define NUMBER_ALIGN 16
#elif defined(C_double) || defined(C_vec2)
#define NUMBER_ALIGN 8
#else
#define NUMBER_ALIGN 4
#endif
layout(buffer_reference, scalar, buffer_reference_align = NUMBER_ALIGN) buffer NumberRef { T v; };
const int BYTES = NUMBER_ALIGN;

T load_number(uint64_t base, int64_t i) { return NumberRef(base + uint64_t(i * BYTES)).v; }
void store_number(uint64_t base, int64_t i, T x) { NumberRef(base + uint64_t(i * BYTES)).v = x; }

#ifdef IS_COMPLEX
T times(T a, T b) { return T(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
T conjugate(T a) { return T(a.x, -a.y); }
REAL real_part(T a) { return a.x; }
T from_real(REAL x) { return T(x, REAL(0)); }
REAL magnitude(T a) { return abs(a.x) + abs(a.y); }  // LAPACK's, for pivots
// By the larger part of b (Smith), which neither overflows nor loses a small one.
T over(T a, T b) {
  if (abs(b.x) >= abs(b.y)) {
    const REAL r = b.y / b.x, d = b.x + b.y * r;
    return T((a.x + a.y * r) / d, (a.y - a.x * r) / d);
  }
  const REAL r = b.x / b.y, d = b.x * r + b.y;
  return T((a.x * r + a.y) / d, (a.y * r - a.x) / d);
}
#else
T times(T a, T b) { return a * b; }
T conjugate(T a) { return a; }
REAL real_part(T a) { return a; }
T from_real(REAL x) { return x; }
REAL magnitude(T a) { return abs(a); }
T over(T a, T b) { return a / b; }
#endif
#endif
