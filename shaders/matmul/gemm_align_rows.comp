// dst[b, r, i] = src[b, r, i] for i < n, zeros up to `width`: rows of 16-bit elements, as
// bits. Rows of either side may start at any element: products on cooperative matrices load and store whole vec8s.
// An invocation writes one aligned vec8 of dst. At a row's ends, where it belongs to others too, single elements are
// written. What it holds is part of two aligned vec8s of src. One without an element of the row is not read, so no
// read leaves the aligned vec8s that src is in.
#include "common/dtype.glsl"
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t src, dst;
  int64_t src_batch, src_row, dst_batch, dst_row;  // strides in elements
  uint n, width, rows, batches;
  uint vec8s;  // of a row of dst, the most
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };

// The vec8 of src whose first element is `column`, if it holds one of a row's `n` elements.
uvec4 load_vec8(uint64_t at, int column, int n) { return column > -8 && column < n ? Vec16b(at).v : uvec4(0); }

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.vec8s) * p.rows * p.batches) return;
  const uint row_of_all = uint(id / p.vec8s), batch = row_of_all / p.rows, row = row_of_all % p.rows;
  const uint64_t to = p.dst + uint64_t(int64_t(batch) * p.dst_batch + int64_t(row) * p.dst_row) * 2;
  const int column = int(uint(id % p.vec8s) * 8) - int(uint(to) & 15u) / 2, width = int(p.width);
  if (column >= width) return;

  const int n = int(p.n);
  const uint64_t from =
      p.src + uint64_t(int64_t(batch) * p.src_batch + int64_t(row) * p.src_row + int64_t(column)) * 2;
  const uint ahead = uint(from) & 15u;  // bytes from an aligned vec8 to this one
  const int first = column - int(ahead / 2);
  const uvec4 low = load_vec8(from - ahead, first, n);
  const uvec4 high = ahead != 0u ? load_vec8(from - ahead + 16, first + 8, n) : uvec4(0);
  uint w[8] = uint[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
  if ((ahead & 8u) != 0u) {
    [[unroll]] for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
  }
  if ((ahead & 4u) != 0u) {
    [[unroll]] for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
  }
  if ((ahead & 2u) != 0u) {
    [[unroll]] for (int i = 0; i < 4; ++i) w[i] = w[i] >> 16 | w[i + 1] << 16;
  }
  if (column < 0 || column + 8 > n) {
    [[unroll]] for (int i = 0; i < 4; ++i) {
      const int even = column + 2 * i;
      w[i] &= (even >= 0 && even < n ? 0xffffu : 0u) | (even >= -1 && even + 1 < n ? 0xffff0000u : 0u);
    }
  }
  const uint64_t at = to + uint64_t(int64_t(column) * 2);
  if (column >= 0 && column + 8 <= width) {
    Vec16b(at).v = uvec4(w[0], w[1], w[2], w[3]);
    return;
  }
  [[unroll]] for (int i = 0; i < 8; ++i)
    if (column + i >= 0 && column + i < width) U16Ref(at + 2 * i).v = uint16_t(w[i / 2] >> (16 * (i % 2)) & 0xffffu);
}
