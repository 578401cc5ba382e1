// A number of the params, which travels as the bits of REAL.
REAL real_of(uint64_t bits) {
#ifdef C_double
  return packDouble2x32(unpackUint2x32(bits));
#else
  return uintBitsToFloat(uint(bits));
#endif
}
