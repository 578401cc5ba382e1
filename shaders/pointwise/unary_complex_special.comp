// out = op(a) of complex numbers for the long functions of complex_ops.def, any strides, one element at a time. C is
// the pair that is computed with. See strided.glsl.
#pragma aule params ring
#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
#define AULE_SPECIAL
#define VEC_ELEMS 4
#define ARITY 1
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/complex_entries.glsl"
#define APPLY(i) apply(a[i])
#define ONE_BY_ONE
#include "pointwise/parts/strided.glsl"
