// Numbers that are not finite, or too large, become 0: by bits, because a compiler may assume that there are no NaNs.
#ifndef AULE_LINALG_FINITE_GLSL
#define AULE_LINALG_FINITE_GLSL
#include "linalg/rounded.glsl"
const R FAR = R(1e30);  // the value of rows past a matrix whose largest element is near 1
#ifdef C_double
R finite(R x) { return (unpackDouble2x32(x).y & 0x7fffffffu) < 0x46000000u ? x : R(0); }  // 2^97
#else
R finite(R x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x70000000u ? x : R(0); }  // 2^97
#endif
#endif
