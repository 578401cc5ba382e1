// dst[c] = src[(c + shift) mod size], moved as bits: roll. With negative strides and no shift it is flip. With TRIANGLE
// it is tril or triu, and elements on the other side of the diagonal become 0. At most 5 dimensions, innermost last,
// 31-bit strides in elements.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/raw.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;
layout(constant_id = 1) const int NDIM = 1;
layout(constant_id = 2) const int TRIANGLE = 0;  // 1 keeps column - row <= diagonal, 2 keeps column - row >= diagonal
const int kMaxDims = 5;

struct Params {
  uint64_t src;   // of the element that coordinate 0 reads
  uint64_t dst;
  int src_stride[5];
  int dst_stride[5];
  uint size[5];
  uint shift[5];  // in [0, size)
  int diagonal;
  uint n;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  uint linear = uint(id);
  int64_t from = int64_t(0), to = int64_t(0);
  int row = 0, column = 0;
  [[unroll]] for (int i = 0; i < kMaxDims; ++i) {
    if (i >= NDIM) continue;
    int d = NDIM - 1 - i;
    uint c = linear;
    if (i + 1 < NDIM) {
      uint rest = linear / p.size[d];
      c = linear - rest * p.size[d];
      linear = rest;
    }
    if (i == 0) column = int(c);
    if (i == 1) row = int(c);
    to += int64_t(c) * int64_t(p.dst_stride[d]);
    uint moved = c + p.shift[d];
    if (moved >= p.size[d]) moved -= p.size[d];
    from += int64_t(moved) * int64_t(p.src_stride[d]);
  }
  u64vec2 bits = u64vec2(0);
  bool keep = TRIANGLE == 0 || (TRIANGLE == 1 ? column - row <= p.diagonal : column - row >= p.diagonal);
  if (keep) bits = load_bits(p.src, uint64_t(from), DTYPE);
  store_bits(p.dst, uint64_t(to), DTYPE, bits);
}
