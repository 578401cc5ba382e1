#pragma aule axis T float16_t bfloat16_t
#pragma aule axis FRAGMENTS 0 1
#pragma aule params wide
#pragma aule feature cooperative_matrix
#pragma aule feature float16 if T=float16_t
#pragma aule feature float16 if T=bfloat16_t FRAGMENTS=1
#pragma aule feature int16 if T=bfloat16_t FRAGMENTS=1
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule feature subgroup_shuffle if FRAGMENTS=1
#pragma aule inline
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
// out = x @ w^T + beta * c for many rows of x: gemm_coopmat.comp, where b is a packed weight of a format (formats.def)
// that is decoded on the way into shared memory. A weight is rounded to T, as a dense one is; sums are of float32.
//
// An invocation decodes SPANS spans of w in a step along k, rows t / spans of a step. Where spans of `lanes` neighbours
// interleave over more than a step, a step takes one of PARTS parts of each (decode.glsl). k is a multiple of BK.
// What was tried: docs/ladders/gemv_quantized.md
#if FRAGMENTS
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
#define ROW_CLASSES 0
#include "matmul/coopmat_constants.glsl"
layout(constant_id = 25) const int FORMAT = 0;
layout(constant_id = 26) const int SCALES = 0;
layout(constant_id = 27) const int SCALE_DTYPE = 0;
layout(constant_id = 28) const int ZERO_DTYPE = 0;
layout(constant_id = 29) const int SPAN = 4;
layout(constant_id = 30) const int ALIGN = 4;
layout(constant_id = 31) const bool ONE_SCALE = false;
layout(constant_id = 32) const int PARTS = 1;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE                                                                                              \
  uint64_t residual, slabs, scales, zeros, outer_scales, code_offset;                                                 \
  uint splits, whole, share, row_bytes, scale_row, scale_shifts;
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
#include "matmul/activation.glsl"
const bool EACH = FORMAT == 19;  // of float8_e5m2, whose NaN would be rounded to a number
#define PARTIAL
#define HELD_LOADS
#if FRAGMENTS
#define LEVELS_IN_LANES
#endif
#include "quantized/decode.glsl"
#include "quantized/decoded_operand.glsl"
#include "matmul/coopmat_product.glsl"
