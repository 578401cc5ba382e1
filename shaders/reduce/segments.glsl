// Operations of segment_reduce*.comp, and the segments' ends.
#define SEGMENT_OP(code, name) const int SEGMENT_##name = code;
#include "reduce/segment_ops.def"

// Within the data even if the caller's offsets are not.
int64_t offset_of(uint64_t i) { return limited(I64Ref(p.offsets + i * 8).v, int64_t(0), p.size); }

REAL initial_value() {
#ifdef C_double
  return packDouble2x32(unpackUint2x32(p.initial));
#else
  return uintBitsToFloat(uint(p.initial));
#endif
}
REAL identity() {
  const REAL infinity = REAL(uintBitsToFloat(0x7f800000u));
  if (OP == SEGMENT_max) return -infinity;
  if (OP == SEGMENT_min) return infinity;
  return REAL(OP == SEGMENT_prod ? 1 : 0);
}
REAL combined(REAL a, REAL b) {
  if (OP == SEGMENT_max) return isnan(b) || b > a ? b : a;
  if (OP == SEGMENT_min) return isnan(b) || b < a ? b : a;
  return OP == SEGMENT_prod ? a * b : a + b;
}
