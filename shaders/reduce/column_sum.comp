// Column sums of x[rows, n], float types, for GPUs: part[split, o] = scale * sum over the split's rows of x[row, o],
// float32. norm_params_sum.comp adds up the splits.
//
// An invocation reads 16 bytes of a row, which are E columns, and has 4 rows in flight. 32 neighbours read 512 bytes.
// The workgroup's 8 slices take rows in turn, and their sums are added in shared memory.
layout(local_size_x = 256) in;
layout(constant_id = 0) const int DTYPE = 0;
#include "common/indexing.glsl"
#include "common/vec16b.glsl"

struct Params {
  uint64_t x, part;
  int64_t row_stride;                  // in elements, a multiple of E
  uint n, rows, blocks, splits, chunk;  // n: a multiple of E; blocks: of 32 E columns; chunk: rows of a split
  float scale;
};
#include "common/params.glsl"

const uint SLICES = 8u, UNROLL = 4u;
shared float sums[SLICES][32 * E];

void main() {
  const uint group = linear_group(), split = group / p.blocks, block = group - split * p.blocks;
  if (split >= p.splits) return;  // the whole workgroup leaves
  const uint id = gl_LocalInvocationID.x, lane = id & 31u, slice = id / 32u;
  const uint column = (block * 32u + lane) * E, last = min(p.rows, (split + 1u) * p.chunk);
  float s[MAX_E];
  [[unroll]] for (uint i = 0u; i < MAX_E; ++i) s[i] = 0.0;
  if (column < p.n) {
    for (uint row = split * p.chunk + slice; row < last; row += SLICES * UNROLL) {
      uvec4 w[UNROLL];
      [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
        const uint at = row + u * SLICES;
        w[u] = uvec4(0);
        if (at < last) w[u] = Vec16bRef(p.x + uint64_t(int64_t(at) * p.row_stride + int64_t(column)) * (16 / E)).v;
      }
      [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
        [[unroll]] for (uint i = 0u; i < MAX_E; ++i)
          if (i < E) s[i] += element(w[u], i);
    }
  }
  [[unroll]] for (uint i = 0u; i < MAX_E; ++i)
    if (i < E) sums[slice][lane * E + i] = s[i];
  barrier();  // all slices written
  if (id >= 32u * E || block * 32u * E + id >= p.n) return;
  float t = 0.0;
  [[unroll]] for (uint k = 0u; k < SLICES; ++k) t += sums[k][id];
  F32Ref(p.part + (uint64_t(split) * p.n + block * 32u * E + id) * 4).v = t * p.scale;
}
