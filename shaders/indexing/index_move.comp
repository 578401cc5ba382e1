// Moves elements through index tensors, bits only, so that one kernel serves every dtype:
//   get: plain[i] = indexed[i, index(i)]   gather, index_select, take, advanced indexing, embedding
//   put: indexed[i, index(i)] = plain[i]   scatter, index_copy, index_fill, index_put, put
// The host merges dimensions and, if whole rows move, widens the element up to 16 bytes (ops/indexing/plan.cpp).
// One invocation moves one element, or `steps` elements in order (walk.glsl). A bad index reads as zeros.
//
// One index tensor, up to 4 dimensions and 31-bit strides, all in push constants: on lavapipe 22.3 each load of a
// parameter from memory costs about 40 ns per 8 invocations. index_move_wide.comp takes larger problems.
layout(constant_id = 6) const int LOCAL = 1;
layout(local_size_x_id = 6) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;
layout(constant_id = 1) const int INDEX_DTYPE = AULE_DT_I64;
layout(constant_id = 2) const bool PUT = false;
layout(constant_id = 3) const int SPREAD = 1;
layout(constant_id = 4) const int WALKED = 0;
layout(constant_id = 5) const int INDICES = 1;

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
};
#include "common/params.glsl"
const int kMaxDims = 4, kMaxIndices = 1;
#include "indexing/index_move_main.glsl"
