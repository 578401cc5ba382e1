// dst[i] = the j with sums[j - 1] <= i < sums[j], where `sums` are the inclusive prefix sums of `repeats`. Bisection,
// one invocation per output element. Sums that do not end at n are reported.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_I64;

struct Params {
  uint64_t sums;  // int64, contiguous
  uint64_t dst;
  uint64_t error;
  uint64_t n;
  uint count, tag;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  int64_t total = I64Ref(p.sums + uint64_t(p.count - 1u) * 8).v;
  if (i == uint64_t(0) && total != int64_t(p.n)) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, total,
      int64_t(p.n));
  uint low = 0u, high = p.count - 1u;
  while (low < high) {
    uint middle = (low + high) / 2u;
    if (I64Ref(p.sums + uint64_t(middle) * 8).v > int64_t(i)) high = middle; else low = middle + 1u;
  }
  store_int64(p.dst, i, DTYPE, int64_t(low));
}
