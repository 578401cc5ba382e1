// One pass of the merge sort: pairs of sorted runs of `run` elements become runs of twice the length. An invocation has
// one element. Its new position is that in its own run plus the number of elements of the other run before it, which a
// binary search finds. Of equal keys those of the left run are first, so the sort is stable.
layout(constant_id = 0) const bool HAS_POSITIONS = false;  // positions have an array of their own
layout(constant_id = 1) const int LOCAL = 8;
layout(local_size_x_id = 1) in;
#include "common/indexing.glsl"
#include "sort/sort_keys.glsl"

struct Params {
  uint64_t keys, positions, keys_out, positions_out;
  uint64_t rows, n, run;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation(), row = id / p.n, i = id - row * p.n;
  if (row >= p.rows) return;
  uint64_t start = row * p.n, own = i - i % p.run, pair = i - i % (2 * p.run);
  bool left = own == pair;
  uint64_t other = left ? pair + p.run : pair;
  uint64_t size = other >= p.n ? uint64_t(0) : lesser(p.run, p.n - other);
  uint64_t key = KeyRef(p.keys + (start + i) * 8).v;
  uint64_t lo = uint64_t(0), hi = size;
  while (lo < hi) {
    uint64_t mid = (lo + hi) / 2, k = KeyRef(p.keys + (start + other + mid) * 8).v;
    if (left ? k < key : k <= key) lo = mid + 1;
    else hi = mid;
  }
  uint64_t to = start + pair + (i - own) + lo;
  KeyRef(p.keys_out + to * 8).v = key;
  if (HAS_POSITIONS) U32Ref(p.positions_out + to * 4).v = U32Ref(p.positions + (start + i) * 4).v;
}
