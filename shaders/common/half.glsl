// Two floats as float16, rounded to nearest even: by the device's own conversion if it rounds so, else by integers.
#ifndef AULE_HALF_GLSL
#define AULE_HALF_GLSL
// Vulkan 1.3 leaves packHalf2x16's rounding to the driver (lavapipe and some AMD drivers truncate). gl_WorkGroupID.z,
// which is 0 in all our grids, hides the values from the compiler, so that the device and no constant folding answers.
// The values are over half a step, exactly half a step, and a subnormal. This costs one comparison per invocation.
bool packs_halves() {
  const uint zero = gl_WorkGroupID.z;
  return packHalf2x16(vec2(uintBitsToFloat(0x3f801800u | zero), uintBitsToFloat(0x3f801000u | zero))) == 0x3c003c01u &&
         packHalf2x16(vec2(uintBitsToFloat(0x34400000u | zero), uintBitsToFloat(0x477ff000u | zero))) == 0x7c000003u;
}

// Rounds to nearest even by integer arithmetic.
uint float_to_f16(float x) {
  const uint u = floatBitsToUint(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  const uint m = min(a, 0x47800000u);  // from 2^16 on, infinity
  const uint normal = (m + (0xfffu - 0x38000000u) + bitfieldExtract(m, 13, 1)) >> 13;
  const uint subnormal = floatBitsToUint(uintBitsToFloat(a) + 0.5) - 0x3f000000u;  // a step of 0.5 is one of theirs
  return sign | mix(mix(normal, subnormal, a < 0x38800000u), 0x7e00u, a > 0x7f800000u);
}
#endif
