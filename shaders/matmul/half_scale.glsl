// float32 numbers as float16 ones: multiplied by the power of two that brings the largest of a tensor into
// [2^14, 2^15). Rounding leaves 11 bits, as TF32 does, of what is at least 2^-28 of the largest; below that fewer, and
// zero from about 2^-39 on.
#ifndef AULE_MATMUL_HALF_SCALE_GLSL
#define AULE_MATMUL_HALF_SCALE_GLSL
// The exponent of that power. An infinite or undefined largest number: 0. Bounds keep both powers normal numbers.
int half_exponent(float largest) {
  const int biased = int(floatBitsToUint(largest) >> 23 & 255u);
  return biased == 255 ? 0 : clamp(14 + 127 - biased, -114, 110);
}
float power_of_two(int exponent) { return uintBitsToFloat(uint(127 + exponent) << 23); }
// The factors of a product of two such tensors, whose largest sizes are at `largest` (half_largest.comp). The lesser
// comes first, so that nothing overflows on the way.
vec2 half_product_scale(uint64_t largest) {
  const float a = power_of_two(-half_exponent(F32Ref(largest).v)),
              b = power_of_two(-half_exponent(F32Ref(largest + 4).v));
  return vec2(min(a, b), max(a, b));
}
#endif
