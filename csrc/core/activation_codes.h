/* Activations that C++ and GLSL share. */
#ifndef AULE_ACTIVATION_CODES_H
#define AULE_ACTIVATION_CODES_H
#define AULE_ACT_NONE 0
#define AULE_ACT_RELU 1
#define AULE_ACT_GELU 2      /* x (1 + erf(x / sqrt 2)) / 2 */
#define AULE_ACT_GELU_TANH 3 /* its approximation by tanh */
#define AULE_ACT_SILU 4
#endif
