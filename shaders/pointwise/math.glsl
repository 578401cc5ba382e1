// The name under which shaders of users include functions/math.glsl (docs/use/compile_shader.md).
#include "pointwise/functions/math.glsl"
