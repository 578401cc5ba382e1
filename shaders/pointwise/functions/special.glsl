// Functions of the arithmetic type T (float or double) for the kernels of long functions. Include after entries.glsl.
#ifdef C_double
#include "pointwise/functions/complex_double.glsl"
#endif
#include "pointwise/functions/frexp.glsl"
#include "pointwise/functions/gamma_functions.glsl"
#ifdef C_double
#include "pointwise/functions/math_special_double.glsl"
#endif
