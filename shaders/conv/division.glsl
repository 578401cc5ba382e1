// Exact division by a number that the host knows, without a division: by[] is {factor, shift} of ops/conv/division.h.
#ifndef AULE_CONV_DIVISION_GLSL
#define AULE_CONV_DIVISION_GLSL
// n / d for n below 2^31.
uint divided(uint n, uint by[2]) {
  uint high, low;
  umulExtended(n, by[0], high, low);
  return (high + n) >> by[1];
}
#endif
