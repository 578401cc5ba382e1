// Two floats as halves, rounded to nearest even, by the device's own conversion where it does that.
#ifndef AULE_HALF_GLSL
#define AULE_HALF_GLSL
// Vulkan leaves packHalf2x16's rounding to the driver (lavapipe and some AMD drivers truncate). The values are hidden
// from the compiler behind gl_WorkGroupID.z, which is 0 in every grid of ours: what the device does counts, not what a
// compiler folds. Past a half and exactly half a step, and a subnormal: one comparison for each invocation.
bool packs_halves() {
  const uint zero = gl_WorkGroupID.z;
  return packHalf2x16(vec2(uintBitsToFloat(0x3f801800u | zero), uintBitsToFloat(0x3f801000u | zero))) == 0x3c003c01u &&
         packHalf2x16(vec2(uintBitsToFloat(0x34400000u | zero), uintBitsToFloat(0x477ff000u | zero))) == 0x7c000003u;
}

// Nearest even by integers.
uint float_to_f16(float x) {
  uint u = floatBitsToUint(x);
  uint sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a >= 0x47800000u) return sign | (a > 0x7f800000u ? 0x7e00u : 0x7c00u);
  if (a < 0x38800000u) return sign | uint(roundEven(uintBitsToFloat(a) * 16777216.0));  // subnormal half
  return sign | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13);
}
#endif
