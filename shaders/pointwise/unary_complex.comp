// out = op(a) of complex numbers over dense operands; op is an entry of complex_ops.def, C the pair that it
// computes with. See dense.glsl.
#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
#define VEC_ELEMS 4
#define ARITY 1
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/complex_entries.glsl"
#define APPLY(i) apply(a[i])
#include "pointwise/parts/dense.glsl"
