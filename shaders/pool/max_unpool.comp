// out[plane, indices[plane, i]] = in[plane, i]: max pooling undone, over an `out` that is zero already.
// One invocation per element of `in`; planes (batch x channel) are contiguous. Bits only, so one kernel serves every
// dtype, 2-D and 3-D. If an index occurs twice in a plane, one of its elements stays, and which one is not determined.
// Overlapping windows of max pooling repeat an index with equal elements. A bad index is reported, nothing is stored.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;

struct Params {
  uint64_t in_;
  uint64_t indices;   // int64
  uint64_t out_;
  uint64_t error;
  uint64_t n;         // elements of `in`
  uint64_t in_plane;  // elements of a plane
  int64_t out_plane;
  uint tag;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  int64_t index = I64Ref(p.indices + i * 8).v;
  if (index < int64_t(0) || index >= p.out_plane) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, index, p.out_plane);
    return;
  }
  uint64_t plane = i / p.in_plane;
  store_raw(p.out_, plane * uint64_t(p.out_plane) + uint64_t(index), DTYPE, load_raw(p.in_, i, DTYPE));
}
