// out = op(a) for the long functions of unary_ops.def, any strides. A loop computes one element at a time: unrolling
// would cost more compile time than it gains.
#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
#define AULE_SPECIAL
#define VEC_ELEMS 4
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/functions/special.glsl"
#include "pointwise/functions/bessel.glsl"
#include "pointwise/parts/unary_entries.glsl"
#define ARITY 1
#define APPLY(i) apply(a[i])
#define ONE_BY_ONE
#include "pointwise/parts/strided.glsl"
