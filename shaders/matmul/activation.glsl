// The activation of a product's epilogue, in float32: the kernel has declared the constant ACTIVATION.
#ifndef AULE_ACTIVATION_GLSL
#define AULE_ACTIVATION_GLSL
#include "activation_codes.h"
#include "common/erfc.glsl"

float activate(float x) {
  // By its bits a NaN stays: NVIDIA's compiler makes a maximum of `x < 0 ? 0 : x`, which is 0 for NaN.
  if (ACTIVATION == AULE_ACT_RELU) return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u ? x : max(x, 0.0);
  if (ACTIVATION == AULE_ACT_GELU) {
    const float tail = 0.5 * erfc_of_positive(abs(x) * 0.70710678118654752);
    // precise: drivers may contract x * (1 - tail) to x - x * tail, which is inf - inf * 0 for infinity.
    precise const float share = x > 0.0 ? 1.0 - tail : tail, y = x * share;
    return y;
  }
  // (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), which does not cancel for negative x.
  if (ACTIVATION == AULE_ACT_GELU_TANH)
    return x / (1.0 + exp(-1.59576912160573071 * (x + 0.044715 * x * x * x)));
  if (ACTIVATION == AULE_ACT_SILU) return x / (1.0 + exp(-x));
  return x;
}
#endif
