// Operations of segment_reduce*.comp, whose codes csrc/ops/reduce/segment.cpp has too, and the segments' ends.
const int SEGMENT_SUM = 0, SEGMENT_MEAN = 1, SEGMENT_MAX = 2, SEGMENT_MIN = 3, SEGMENT_PROD = 4, SEGMENT_COUNT = 5;

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
  if (OP == SEGMENT_MAX) return -infinity;
  if (OP == SEGMENT_MIN) return infinity;
  return REAL(OP == SEGMENT_PROD ? 1 : 0);
}
REAL combined(REAL a, REAL b) {
  if (OP == SEGMENT_MAX) return isnan(b) || b > a ? b : a;
  if (OP == SEGMENT_MIN) return isnan(b) || b < a ? b : a;
  return OP == SEGMENT_PROD ? a * b : a + b;
}
