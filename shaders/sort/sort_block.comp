#pragma aule axis GROUP 0 1
// First pass of the merge sort of x[rows, n]: runs of BLOCK elements, each element stored at its rank in its run.
// GROUP 0: one invocation per element, which reads the run from memory. GROUP 1: BLOCK is the workgroup's size, and the
// run's keys are in shared memory (2 KiB).
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool IS_DESCENDING = false;
layout(constant_id = 2) const int BLOCK = 32;
layout(constant_id = 3) const int LOCAL = 8;
layout(local_size_x_id = 3) in;
#include "common/indexing.glsl"
#include "sort/sort_keys.glsl"

struct Params {
  uint64_t in_, keys, positions;  // positions: 32-bit, of 64-bit dtypes only
  uint64_t rows, n;
};
#include "common/params.glsl"

#if GROUP
shared uint64_t run[BLOCK];
#endif

void main() {
#if GROUP
  uint64_t blocks = (p.n + BLOCK - 1) / BLOCK, row = uint64_t(linear_group()) / blocks;
  if (row >= p.rows) return;  // the whole workgroup leaves
  uint64_t first = (uint64_t(linear_group()) - row * blocks) * BLOCK, i = first + gl_LocalInvocationID.x;
#else
  uint64_t id = linear_invocation(), row = id / p.n, i = id - row * p.n;
  if (row >= p.rows) return;
  uint64_t first = i - i % BLOCK;
#endif
  uint count = uint(lesser(uint64_t(BLOCK), p.n - first)), own = uint(i - first), rank = 0u;
  uint64_t start = row * p.n;
#if GROUP
  uint64_t key = ~uint64_t(0);
  if (own < count) key = sort_key(p.in_, start + i, uint(i), DTYPE, IS_DESCENDING);
  run[own] = key;
  barrier();  // the run is loaded
  if (own >= count) return;
#else
  uint64_t key = sort_key(p.in_, start + i, uint(i), DTYPE, IS_DESCENDING);
#endif
  for (uint j = 0; j < count; ++j) {
#if GROUP
    uint64_t other = run[j];
#else
    uint64_t other = sort_key(p.in_, start + first + j, uint(first) + j, DTYPE, IS_DESCENDING);
#endif
    rank += other < key || (wide_key(DTYPE) && other == key && j < own) ? 1u : 0u;
  }
  uint64_t to = start + first + rank;
  KeyRef(p.keys + to * 8).v = key;
  if (wide_key(DTYPE)) U32Ref(p.positions + to * 4).v = uint(i);
}
