// Functions of the arithmetic type T (float or double) for the kernels of long functions. Include after entries.glsl.
#ifdef C_double
#include "pointwise/complex_double.glsl"
#endif
#include "pointwise/frexp.glsl"
#include "pointwise/gamma_functions.glsl"
#ifdef C_double
#include "pointwise/math_special_double.glsl"
#endif
