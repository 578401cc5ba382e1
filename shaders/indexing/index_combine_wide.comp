#pragma aule params ring
#pragma aule axis C float double vec2 dvec2
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
#pragma aule skip C=vec2 ADD=native
#pragma aule skip C=dvec2 ADD=native
// index_combine.comp for up to 8 index tensors, 8 dimensions and any strides.
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
  uint64_t plain;            // element 0 of the tensor addressed by position
  uint64_t indexed;          // element 0 of the tensor addressed by the indices
  uint64_t error;            // the device's error record
  uint64_t index[8];
  int64_t plain_stride[8];
  int64_t indexed_stride[8];
  int64_t index_stride[64];  // [index][dimension]
  int64_t bound[8];          // size that each index is checked against
  int64_t step[8];           // stride that each index is multiplied with
  int64_t integer_alpha;
  uint size[8];
  uint n, steps;
  uint tag;                  // upper bit: negative indices count from the end
  float alpha;
};
#include "common/params.glsl"
const int kMaxDims = 8, kMaxIndices = 8;
#include "indexing/index_combine_main.glsl"
