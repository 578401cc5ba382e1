#pragma aule axis T float16_t bfloat16_t
#pragma aule axis FRAGMENTS 0 1 2
#pragma aule axis ROW_CLASSES 0 1
#pragma aule skip FRAGMENTS=2 ROW_CLASSES=1
#pragma aule params wide
#pragma aule feature cooperative_matrix
#pragma aule feature float16 if T=float16_t
#pragma aule feature float16 if T=bfloat16_t FRAGMENTS=1
#pragma aule feature int16 if T=bfloat16_t FRAGMENTS=1
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule feature subgroup_shuffle if FRAGMENTS=1
#pragma aule feature subgroup_shuffle if FRAGMENTS=2
#pragma aule inline
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
// out = alpha * a @ b + beta * c on cooperative matrices: float16 and bfloat16, float32 accumulation.
//
// A workgroup makes a BM x BN tile of out, a subgroup WM x WN of it. Steps of BK along k pass through registers into
// shared memory, while the step before is multiplied. A vec8 is 8 elements along k, 16 bytes; of an mn-major operand it
// is 8 along m or n, and an invocation transposes 4 k by 8 rows on the way. Rows past m or n read the last ones and are
// not stored. If 16-byte loads are not aligned, one load brings A_VEC or B_VEC elements. Aligned rows may end inside a
// vec8. The step with the remainder of k comes first, so only that load checks bounds.
// FRAGMENTS 0: any shape and layout of the matrices. 1: tiles as the lanes of NVIDIA's 16 x 16 x 16 matrices hold them.
// 2: that layout for mn-major operands, in padded tiles; 48 KiB hold 48 k of 128 x 256. docs/design/matmul.md has
// the map of lanes. Results leave 8 columns at a time (FRAGMENTS 1, 2) or through shared memory.
// ROW_CLASSES 1: k-major operands, and rows of out that start anywhere. A tile's rows are 8 apart, and start alike.
// What was tried, and what it gave: docs/ladders/gemm_coopmat.md
#if FRAGMENTS
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
#include "matmul/coopmat_constants.glsl"
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE uint64_t residual, slabs; uint splits, whole, share;
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
#include "matmul/activation.glsl"
#include "matmul/coopmat_product.glsl"
