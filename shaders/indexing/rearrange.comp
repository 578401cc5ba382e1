#pragma aule params ring
// dst[c] = src[(c + shift) mod size], bits only: roll; with negative strides and no shift, flip; with a diagonal,
// tril and triu: elements on the wrong side become 0. Any strides, in elements, at most 8 dimensions, innermost last.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DT = AULE_DT_RAW4;
layout(constant_id = 1) const int NDIM = 1;
layout(constant_id = 2) const int TRIANGLE = 0;  // 1 keeps column - row <= diagonal, 2 keeps column - row >= diagonal
const int kMaxDims = 8;

struct Params {
  uint64_t src;   // of the element that coordinate 0 reads
  uint64_t dst;
  int64_t src_stride[8];
  int64_t dst_stride[8];
  int64_t diagonal;
  uint size[8];
  uint shift[8];  // in [0, size)
  uint n;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  uint linear = uint(id);
  int64_t from = int64_t(0), to = int64_t(0), row = int64_t(0), column = int64_t(0);
  [[unroll]] for (int i = 0; i < kMaxDims; ++i) {
    if (i >= NDIM) continue;
    int d = NDIM - 1 - i;
    uint rest = linear / p.size[d], c = linear - rest * p.size[d];
    linear = rest;
    if (i == 0) column = int64_t(c);
    if (i == 1) row = int64_t(c);
    to += int64_t(c) * p.dst_stride[d];
    uint moved = c + p.shift[d];
    if (moved >= p.size[d]) moved -= p.size[d];
    from += int64_t(moved) * p.src_stride[d];
  }
  uvec4 bits = uvec4(0u);
  bool keep = TRIANGLE == 0 || (TRIANGLE == 1 ? column - row <= p.diagonal : column - row >= p.diagonal);
  if (keep) bits = load_raw(p.src, uint64_t(from), DT);
  store_raw(p.dst, uint64_t(to), DT, bits);
}
