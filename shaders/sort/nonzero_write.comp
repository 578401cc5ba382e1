// Coordinates of the true elements: out[k, d] for the k-th one. `before` is the inclusive running count of true
// elements.
layout(constant_id = 0) const int BEFORE_DTYPE = 0;
layout(constant_id = 1) const int LOCAL = 8;
layout(local_size_x_id = 1) in;
#include "common/indexing.glsl"
#include "common/dtype.glsl"

struct Params {
  uint64_t flags, before, out_, numel, limit;  // limit: rows of out
  uint64_t sizes[10];                          // slowest first
  uint dims, by_columns;                       // by_columns: out is stored column by column
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.numel || uint(U8Ref(p.flags + i).v) == 0u) return;
  uint64_t k = uint64_t(load_int64(p.before, i, BEFORE_DTYPE) - int64_t(1));
  if (k >= p.limit) return;
  uint64_t rest = i;
  for (uint d = p.dims; d-- > 0u;) {
    uint64_t q = rest / p.sizes[d];
    const uint64_t at = p.by_columns != 0u ? d * p.limit + k : k * p.dims + d;
    I64Ref(p.out_ + at * 8).v = int64_t(rest - q * p.sizes[d]);
    rest = q;
  }
}
