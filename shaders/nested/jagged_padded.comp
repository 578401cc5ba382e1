// Rows of a jagged batch, and the same batch padded. Offsets are int64 on the device.
//   to padded    dst[b, j, i] = src[offsets[b] + j, i] where j < offsets[b + 1] - offsets[b], else the padding
//   TO_JAGGED    dst[r, i] = src[b, r - offsets[b], i] for the b with offsets[b] <= r < offsets[b + 1]; 0 past `extent`
// An invocation owns an element of dst. Elements are moved as bits.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_RAW4;
layout(constant_id = 1) const bool TO_JAGGED = false;

struct Params {
  uint64_t src, dst, offsets, padding;
  uint64_t n;  // elements of dst
  uint64_t rows;  // of the jagged tensor
  uint64_t extent;  // of the padded dimension
  uint64_t inner;  // elements of a row
  uint batches;
};
#include "common/params.glsl"

int64_t offset_of(uint b) { return limited(I64Ref(p.offsets + uint64_t(b) * 8).v, int64_t(0), int64_t(p.rows)); }

// The last sequence that begins at the row or before.
uint sequence_of(uint64_t row) {
  uint low = 0, high = p.batches - 1;
  while (low < high) {
    const uint middle = (low + high + 1) / 2;
    if (offset_of(middle) <= int64_t(row)) low = middle;
    else high = middle - 1;
  }
  return low;
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint64_t row = id / p.inner, i = id - row * p.inner;
  const uint b = TO_JAGGED ? sequence_of(row) : uint(row / p.extent);
  const int64_t begin = offset_of(b), end = offset_of(b + 1);
  const int64_t j = int64_t(TO_JAGGED ? row : row - uint64_t(b) * p.extent) - (TO_JAGGED ? begin : int64_t(0));
  uvec4 x = uvec4(0);
  if (TO_JAGGED) {
    if (j >= 0 && j < int64_t(p.extent) && int64_t(row) < end)
      x = load_raw(p.src, (uint64_t(b) * p.extent + uint64_t(j)) * p.inner + i, DTYPE);
  } else if (j < end - begin) {
    x = load_raw(p.src, uint64_t(begin + j) * p.inner + i, DTYPE);
  } else {
    x = load_raw(p.padding, uint64_t(0), DTYPE);
  }
  store_raw(p.dst, id, DTYPE, x);
}
