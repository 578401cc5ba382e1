// OP's entry of ternary_ops.def as a function.
layout(constant_id = 0) const int OP = 0;

#define TERNARY_NONE(id, name, forms, expr)
#define TERNARY_CASE(id, name, forms, expr) case id: return T(expr);
#define TERNARY_ANY TERNARY_CASE
#define TERNARY_TEST TERNARY_CASE
#if defined(C_float)
#define TERNARY_REAL TERNARY_CASE
#define TERNARY_INT TERNARY_NONE
#elif defined(C_double)
#define TERNARY_REAL TERNARY_CASE
#define TERNARY_INT TERNARY_NONE
#else
#define TERNARY_REAL TERNARY_NONE
#define TERNARY_INT TERNARY_CASE
#endif

T apply(T x, T y, T z) {
  switch (OP) {
#include "pointwise/ternary_ops.def"
  }
  return T(0);
}
