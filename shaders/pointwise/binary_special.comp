// out = op(a, b) for the long functions of binary_ops.def, any strides, one element at a time. See strided.glsl.
#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
#define AULE_SPECIAL
#define VEC_ELEMS 4
#define ARITY 2
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/functions/special.glsl"
#include "pointwise/functions/orthogonal_polynomials.glsl"
#include "pointwise/parts/binary_entries.glsl"
#define APPLY(i) apply(a[i], b[i])
#define ONE_BY_ONE
#include "pointwise/parts/strided.glsl"
