// OP's entry of unary_ops.def as a function.
layout(constant_id = 0) const int OP = 0;

#define UNARY_NONE(id, name, forms, expr)
#define UNARY_CASE(id, name, forms, expr) case id: return T(expr);
#define UNARY_ANY UNARY_CASE
#define UNARY_TEST UNARY_CASE
#if defined(C_float)
#define UNARY_REAL UNARY_CASE
#define UNARY_INT UNARY_NONE
#elif defined(C_double)
#define UNARY_REAL UNARY_CASE
#define UNARY_INT UNARY_NONE
#else
#define UNARY_REAL UNARY_NONE
#define UNARY_INT UNARY_CASE
#endif
#ifdef AULE_SPECIAL
#undef UNARY_CASE
#define UNARY_CASE UNARY_NONE
#define UNARY_SPECIAL(id, name, forms, expr) case id: return expr;
#else
#define UNARY_SPECIAL UNARY_NONE
#endif

T apply(T x) {
  switch (OP) {
#include "pointwise/unary_ops.def"
  }
  return T(0);
}
