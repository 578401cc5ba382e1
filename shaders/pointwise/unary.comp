// out = op(a) over dense operands; op is an entry of unary_ops.def, C the type it computes in. See dense.glsl.
#pragma aule axis C float int int64_t double
#pragma aule feature float64 if C=double
#define VEC_ELEMS 8
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/parts/unary_entries.glsl"
#define ARITY 1
#define APPLY(i) apply(a[i])
#include "pointwise/parts/dense.glsl"
