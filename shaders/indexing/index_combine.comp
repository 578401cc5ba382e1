#pragma aule axis C float double vec2 dvec2
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
#pragma aule skip C=vec2 ADD=native
#pragma aule skip C=dvec2 ADD=native
// Combines elements with destinations that index tensors choose:
//   indexed[i, index(i)] = indexed[i, index(i)] OP alpha * plain[i]      OP: +, *, max, min
// for scatter_add, scatter_reduce, index_add, index_reduce, put and index_put with accumulate, embedding's backward.
//
// ATOMIC: one invocation per element. 32-bit integer sums are plain atomics. 64-bit sums add the low word, get its
// carry from the old value, and add the high word, which is exact. float32 sums use the hardware's atomic if ADD is
// native. All others are a compare-and-swap loop on the 32-bit word that holds the element.
// Without ATOMIC an invocation loops, in order, over all elements that may have one destination. This is deterministic,
// and the only form for dtypes of 8 bytes apart from int64 sums. bool sums are a logical or, as in PyTorch. Of complex
// numbers only products come here: sums are those of pairs of real numbers.
// Parameters are push constants, as in index_move.comp. index_combine_wide.comp takes larger problems.
#ifdef ADD_native
#extension GL_EXT_shader_atomic_float : require
#endif
layout(constant_id = 8) const int LOCAL = 1;
layout(local_size_x_id = 8) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;         // of indexed
layout(constant_id = 1) const int PLAIN_DTYPE = AULE_DT_F32;   // of plain
layout(constant_id = 2) const int INDEX_DTYPE = AULE_DT_I64;
layout(constant_id = 3) const int OP = 0;
layout(constant_id = 4) const bool ATOMIC = false;
layout(constant_id = 5) const int SPREAD = 1;
layout(constant_id = 6) const int WALKED = 0;
layout(constant_id = 7) const int INDICES = 1;

struct Params {
  uint64_t plain;           // element 0 of the tensor addressed by position
  uint64_t indexed;         // element 0 of the tensor addressed by the index
  uint64_t error;           // the device's error record
  uint64_t index[1];
  int plain_stride[4];
  int indexed_stride[4];
  int index_stride[4];
  int bound[1];             // size that the index is checked against
  int step[1];              // stride that the index is multiplied with
  uint size[4];
  uint n, steps;
  uint tag;                 // upper bit: negative indices count from the end
  int integer_alpha;
  float alpha;
};
#include "common/params.glsl"
const int kMaxDims = 4, kMaxIndices = 1;
#include "indexing/index_combine_main.glsl"
