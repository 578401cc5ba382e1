// Names that complex_ops.def uses, and OP's entry as a function of pairs. ARITY is defined before.
#include "pointwise/functions/complex.glsl"
#ifdef AULE_SPECIAL
#include "pointwise/functions/complex_special.glsl"
#endif
layout(constant_id = 0) const int OP = 0;
T s0;  // an op's Scalar argument

T result(T z) { return z; }
T result(R x) { return T(x, R(0)); }
T result(bool x) { return T(x ? R(1) : R(0), R(0)); }

#define COMPLEX_NONE(id, name, expr)
#define COMPLEX_CASE(id, name, expr) case id: return result(expr);
#ifdef AULE_SPECIAL
#define COMPLEX_UNARY COMPLEX_NONE
#define COMPLEX_BINARY COMPLEX_NONE
#else
#define COMPLEX_UNARY_SPECIAL COMPLEX_NONE
#define COMPLEX_BINARY_SPECIAL COMPLEX_NONE
#endif
#if ARITY == 1
T apply(T x) {
#ifdef AULE_SPECIAL
#define COMPLEX_UNARY_SPECIAL COMPLEX_CASE
#define COMPLEX_BINARY_SPECIAL COMPLEX_NONE
#else
#define COMPLEX_UNARY COMPLEX_CASE
#define COMPLEX_BINARY COMPLEX_NONE
#endif
#define COMPLEX_TERNARY COMPLEX_NONE
#elif ARITY == 2
T apply(T x, T y) {
#ifdef AULE_SPECIAL
#define COMPLEX_UNARY_SPECIAL COMPLEX_NONE
#define COMPLEX_BINARY_SPECIAL COMPLEX_CASE
#else
#define COMPLEX_UNARY COMPLEX_NONE
#define COMPLEX_BINARY COMPLEX_CASE
#endif
#define COMPLEX_TERNARY COMPLEX_NONE
#else
T apply(T x, T y, T z) {
#define COMPLEX_UNARY COMPLEX_NONE
#define COMPLEX_BINARY COMPLEX_NONE
#define COMPLEX_TERNARY COMPLEX_CASE
#endif
  switch (OP) {
#include "pointwise/complex_ops.def"
  }
  return T(R(0));
}
