#pragma aule params ring
// index_move.comp for up to 8 index tensors, 8 dimensions and any strides.
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
  uint64_t plain;            // element 0 of the tensor addressed by position
  uint64_t indexed;          // element 0 of the tensor addressed by the indices
  uint64_t error;            // the device's error record
  uint64_t index[8];
  int64_t plain_stride[8];
  int64_t indexed_stride[8];
  int64_t index_stride[64];  // [index][dimension]
  int64_t bound[8];          // size that each index is checked against
  int64_t step[8];           // stride that each index is multiplied with
  uint size[8];
  uint n, steps;
  uint tag;                  // upper bit: negative indices count from the end
};
#include "common/params.glsl"
const int kMaxDims = 8, kMaxIndices = 8;
#include "indexing/index_move_main.glsl"
