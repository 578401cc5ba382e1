// OP's entry of binary_ops.def as a function.
layout(constant_id = 0) const int OP = 0;

#define BINARY_NONE(id, name, forms, expr)
#define BINARY_CASE(id, name, forms, expr) case id: return T(expr);
#define BINARY_ANY BINARY_CASE
#define BINARY_TEST BINARY_CASE
#if defined(C_float)
#define BINARY_REAL BINARY_CASE
#define BINARY_INT BINARY_NONE
#elif defined(C_double)
#define BINARY_REAL BINARY_CASE
#define BINARY_INT BINARY_NONE
#else
#define BINARY_REAL BINARY_NONE
#define BINARY_INT BINARY_CASE
#endif
#ifdef AULE_SPECIAL
#undef BINARY_CASE
#define BINARY_CASE BINARY_NONE
#define BINARY_SPECIAL(id, name, forms, expr) case id: return expr;
#else
#define BINARY_SPECIAL BINARY_NONE
#endif

T apply(T x, T y) {
  switch (OP) {
#include "pointwise/binary_ops.def"
  }
  return T(0);
}
