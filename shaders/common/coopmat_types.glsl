// Cooperative matrices of one subgroup, VK_KHR_cooperative_matrix only. T is the variant's 16-bit type (axis T).
//
// The shape is MAT_M x MAT_N with MAT_K = MAT_N, so that an accumulator of one product can become the A operand of the
// next: 16x16x16 on NVIDIA and AMD, 8x16x16 on Intel, 8x8x8 on lavapipe. They are the constants at MATRIX_CONSTANTS (0
// unless defined) and the one after it.
#ifndef AULE_MATRIX_TYPES_GLSL
#define AULE_MATRIX_TYPES_GLSL
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif

#ifndef MATRIX_CONSTANTS
#define MATRIX_CONSTANTS 0
#endif
#ifndef ATTENTION_GENERATED  // generated kernels (inductor/flex.glsl) bring their own
layout(constant_id = MATRIX_CONSTANTS) const int MAT_M = 16;
layout(constant_id = MATRIX_CONSTANTS + 1) const int MAT_N = 16;
#endif

#define MatA coopmat<T, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, MAT_N, MAT_N, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#endif
