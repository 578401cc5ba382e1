// permutation[b, i] = the row that comes to i when, for k = 0, 1, ... count - 1, rows k and pivots[b, k] - first - 1
// change places. IS_INVERSE: the place where row i goes. An invocation follows one row through all exchanges.
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = AULE_DT_I32;  // of the result
layout(constant_id = 1) const bool IS_INVERSE = false;
layout(local_size_x = 64) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t pivots, permutation;
  int64_t pivots_batch;
  uint rows, count, batches, first;
};
#include "common/params.glsl"

void main() {
  const uint64_t q = linear_invocation();
  if (q >= uint64_t(p.rows) * p.batches) return;
  const uint64_t pivots = p.pivots + uint64_t(int64_t(q / p.rows) * p.pivots_batch * 4);
  uint row = uint(q % p.rows);
  for (uint n = 0; n < p.count; ++n) {
    const uint k = IS_INVERSE ? n : p.count - 1 - n;
    const uint other = uint(I32Ref(pivots + k * 4).v) - p.first - 1;
    row = row == k ? other : row == other ? k : row;
  }
  store_int64(p.permutation, q, DTYPE, int64_t(row));
}
