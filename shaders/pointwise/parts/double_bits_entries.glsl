// Names that double_bits_ops.def uses besides common/double_bits.glsl, and OP's entry as a function.
layout(constant_id = 0) const int OP = 0;
uint64_t s0, s1, s2;  // an op's Scalar arguments

const uint64_t D_ONE = uint64_t(0x3ff) << 52;
uint64_t d_bool(bool x) { return x ? D_ONE : uint64_t(0); }
uint64_t d_sign(uint64_t x) { return d_nan(x) || d_zero(x) ? uint64_t(0) : (x & D_SIGN) | D_ONE; }
uint64_t d_limited(uint64_t x, uint64_t low, uint64_t high) {
  uint64_t t = d_nan(x) ? x : (d_nan(low) || d_less(x, low) ? low : x);
  return d_nan(t) ? t : (d_nan(high) || d_less(high, t) ? high : t);
}

#define DOUBLE_NONE(id, name, expr)
#define DOUBLE_CASE(id, name, expr) case id: return expr;
#if ARITY == 1
#define DOUBLE_UNARY DOUBLE_CASE
#define DOUBLE_BINARY DOUBLE_NONE
#define DOUBLE_TERNARY DOUBLE_NONE
uint64_t apply(uint64_t x) {
#elif ARITY == 2
#define DOUBLE_UNARY DOUBLE_NONE
#define DOUBLE_BINARY DOUBLE_CASE
#define DOUBLE_TERNARY DOUBLE_NONE
uint64_t apply(uint64_t x, uint64_t y) {
#else
#define DOUBLE_UNARY DOUBLE_NONE
#define DOUBLE_BINARY DOUBLE_NONE
#define DOUBLE_TERNARY DOUBLE_CASE
uint64_t apply(uint64_t x, uint64_t y, uint64_t z) {
#endif
  switch (OP) {
#include "pointwise/double_bits_ops.def"
  }
  return uint64_t(0);
}
