// The name under which shaders of users include functions/math_special.glsl (docs/use/compile_shader.md).
#include "pointwise/functions/math_special.glsl"
