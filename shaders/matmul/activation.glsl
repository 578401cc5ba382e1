// The activation of a product's epilogue, in float32: the kernel has declared the constant ACTIVATION.
#ifndef AULE_ACTIVATION_GLSL
#define AULE_ACTIVATION_GLSL
#include "activation_codes.h"

// erfc on a >= 0 to 1.2e-7 of its value (Numerical Recipes, erfcc). Epilogues are unrolled many times: no branch.
float erfc_of_positive(float a) {
  const float t = 1.0 / (1.0 + 0.5 * a);
  return t * exp(-a * a - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
      t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
}
float activate(float x) {
  if (ACTIVATION == AULE_ACT_RELU) return x < 0.0 ? 0.0 : x;  // NaN stays
  if (ACTIVATION == AULE_ACT_GELU) {
    const float tail = 0.5 * erfc_of_positive(abs(x) * 0.70710678118654752);
    return x * (x > 0.0 ? 1.0 - tail : tail);
  }
  // (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), which does not cancel for negative x.
  if (ACTIVATION == AULE_ACT_GELU_TANH)
    return x / (1.0 + exp(-1.59576912160573071 * (x + 0.044715 * x * x * x)));
  if (ACTIVATION == AULE_ACT_SILU) return x / (1.0 + exp(-x));
  return x;
}
#endif
