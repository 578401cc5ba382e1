#pragma aule feature subgroup_shuffle
#extension GL_KHR_shader_subgroup_basic : require
// out = op(a, b, c) over dense operands on lavapipe, in float32; op is an entry of ternary_ops.def.
// See dense_simd.glsl.
#define C_float
#define VEC_ELEMS 8
#define BLOCKS 4
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/entries.glsl"
#include "pointwise/parts/ternary_entries.glsl"
#define ARITY 3
#define APPLY(i) apply(a[i], b[i], c[i])
#include "pointwise/parts/dense_simd.glsl"
