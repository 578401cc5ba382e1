// out = op(a, b, c) over dense operands; op is an entry of ternary_ops.def, C the type it computes in. See dense.glsl.
#pragma aule axis C float int int64_t double
#pragma aule feature float64 if C=double
#define VEC_ELEMS 8
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/parts/ternary_entries.glsl"
#define ARITY 3
#define APPLY(i) apply(a[i], b[i], c[i])
#include "pointwise/parts/dense.glsl"
