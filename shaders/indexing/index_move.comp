#pragma aule params ring
// Moves elements through index tensors, bits only, so that one kernel serves every dtype:
//   get: plain[i] = indexed[i, index(i)]   gather, index_select, take, advanced indexing, embedding
//   put: indexed[i, index(i)] = plain[i]   scatter, index_copy, index_fill, index_put, put
// The host merges dimensions and, where whole rows move, widens the element up to 16 bytes (ops/indexing_plan.cpp).
// One invocation moves one element, or walks `steps` of them in order (see walk.glsl). A bad index reads as zeros.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DT = AULE_DT_RAW4;
layout(constant_id = 1) const int INDEX_DT = AULE_DT_I64;
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
  uint n, steps, tag, wrap;
};
#include "common/params.glsl"
#include "indexing/walk.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  Place first = first_place(uint(id));
  uint steps = WALKED > 0 ? p.steps : 1u;
  for (uint s = 0u; s < steps; ++s) {
    Place place = place_at(first, s);
    if (PUT) {
      if (place.good) store_raw(p.indexed, uint64_t(place.indexed), DT, load_raw(p.plain, uint64_t(place.plain), DT));
    } else {
      uvec4 bits = uvec4(0u);
      if (place.good) bits = load_raw(p.indexed, uint64_t(place.indexed), DT);
      store_raw(p.plain, uint64_t(place.plain), DT, bits);
    }
  }
}
