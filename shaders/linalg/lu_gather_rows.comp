// dst[b, i, c] = src[b, permutation[b, i], c]; dst is dense, its rows or (ALONG_ROWS) its columns one after the other.
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;
layout(constant_id = 1) const bool ALONG_ROWS = true;
layout(local_size_x = 128) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t src, dst, permutation;
  int64_t src_batch, src_row, src_col;
  uint rows, columns, batches;
};
#include "common/params.glsl"

void main() {
  const uint64_t q = linear_invocation();
  const uint64_t of_matrix = uint64_t(p.rows) * p.columns;
  if (q >= of_matrix * p.batches) return;
  const uint64_t batch = q / of_matrix, e = q % of_matrix;
  const uint i = uint(ALONG_ROWS ? e % p.rows : e / p.columns), c = uint(ALONG_ROWS ? e / p.rows : e % p.columns);
  const int from = I32Ref(p.permutation + (batch * p.rows + i) * 4).v;
  const int64_t at = int64_t(batch) * p.src_batch + int64_t(from) * p.src_row + int64_t(c) * p.src_col;
  store_raw(p.dst, q, DTYPE, load_raw(p.src, uint64_t(at), DTYPE));
}
