// out = op(a) over operands of any strides; op is an entry of unary_ops.def, C the type it computes in.
// See strided.glsl.
#pragma aule params ring
#pragma aule axis C float int int64_t double
#pragma aule feature float64 if C=double
#define VEC_ELEMS 4
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/parts/unary_entries.glsl"
#define ARITY 1
#define APPLY(i) apply(a[i])
#include "pointwise/parts/strided.glsl"
