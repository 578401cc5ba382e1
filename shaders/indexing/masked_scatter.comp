// self[i] = source[rank(i)] where mask[i], rank(i) = number of set mask elements before i: masked_scatter.
// `ranks` is the inclusive prefix sum of the mask. All are contiguous and moved as bits. A source that is too short is
// reported.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;

struct Params {
  uint64_t self;
  uint64_t mask;    // bool
  uint64_t ranks;   // int64
  uint64_t source;
  uint64_t error;
  uint64_t n;
  int64_t source_elems;
  uint tag;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  if (uint(U8Ref(p.mask + i).v) == 0u) return;
  int64_t rank = I64Ref(p.ranks + i * 8).v - int64_t(1);
  if (rank < int64_t(0) || rank >= p.source_elems) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, rank, p.source_elems);
    return;
  }
  store_raw(p.self, i, DTYPE, load_raw(p.source, uint64_t(rank), DTYPE));
}
