// Writes elements first .. first + count - 1 of each row's sorted order, as values of x[rows, n] and as positions.
layout(constant_id = 0) const int RAW_DTYPE = 0;   // element size code; values are only moved
layout(constant_id = 1) const bool HAS_POSITIONS = false;
layout(constant_id = 2) const int LOCAL = 8;
layout(local_size_x_id = 2) in;
#include "common/indexing.glsl"
#include "sort/sort_keys.glsl"

struct Params {
  uint64_t in_, keys, positions, values, indices;
  uint64_t rows, n, first, count;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation(), row = id / p.count, k = id - row * p.count;
  if (row >= p.rows) return;
  uint64_t at = row * p.n + p.first + k;
  uint from = HAS_POSITIONS ? U32Ref(p.positions + at * 4).v : uint(KeyRef(p.keys + at * 8).v);
  store_raw(p.values, id, RAW_DTYPE, load_raw(p.in_, row * p.n + from, RAW_DTYPE));
  I64Ref(p.indices + id * 8).v = int64_t(from);
}
