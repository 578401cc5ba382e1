// dst[b, j, i] = src[b, j, i] where dst is dense along i and src along j: tiles of 32 x 32 through shared memory, so
// that both sides are read and written along their dense dimension. Elements of 1 to 16 bytes, moved as bits.
// A workgroup of 32 x 8 moves one tile; x walks tiles along i, y along j, z the batch (up to 4 dimensions).
// PAIRS: elements of two bytes, two at a time along either side, in tiles of 64 x 64, so that as many bytes as of four
// are on their way.
// For GPUs: on an H200 a transposed copy without the tile reaches 420 GB/s of 3700 (docs/ladders/copy_strided.md).
#include "common/dtype.glsl"

struct Params {
  uint64_t dst;
  uint64_t src;
  uint size_i;
  uint size_j;
  uint dst_stride_j;
  uint src_stride_i;
  uint sizes[4];  // batch, unused ones 1
  uint dst_strides[4];
  uint src_strides[4];
};
#include "common/params.glsl"

layout(local_size_x = 32, local_size_y = 8) in;
layout(constant_id = 0) const int DTYPE = 0;  // a RAW code
layout(constant_id = 1) const bool PAIRS = false;

const uint SIDE = PAIRS ? 64 : 32;
shared uvec2 tile[PAIRS ? 1 : 32 * 33];  // 8.25 KiB; the odd pitch keeps columns in different banks
shared uint pairs[PAIRS ? 64 * 33 : 1];  // along j, as many bytes
shared uvec2 upper[DTYPE == AULE_DT_RAW16 ? 32 * 33 : 1];  // halves of elements

void move_pairs(uint d, uint s, uint i0, uint j0) {
  const uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  [[unroll]] for (uint k = 0u; k < 64u; k += 8u) {
    const uint i = i0 + y + k, j = j0 + 2u * x;
    if (i < p.size_i && j < p.size_j) pairs[(y + k) * 33u + x] =
        U32Ref(p.src + uint64_t(s + i * p.src_stride_i + j) * 2).v;
  }
  barrier();  // the whole tile is written before its columns are read
  [[unroll]] for (uint k = 0u; k < 32u; k += 8u) {
    const uint i = i0 + 2u * x, j = j0 + 2u * (y + k);
    if (i < p.size_i && j < p.size_j) {
      const uint a = pairs[2u * x * 33u + y + k], b = pairs[(2u * x + 1u) * 33u + y + k];
      const uint64_t to = p.dst + uint64_t(d + j * p.dst_stride_j + i) * 2;
      U32Ref(to).v = (a & 0xffffu) | b << 16;
      U32Ref(to + uint64_t(p.dst_stride_j) * 2).v = a >> 16 | (b & 0xffff0000u);
    }
  }
}

void main() {
  uint rest = gl_WorkGroupID.z, d = 0u, s = 0u;
  for (int k = 0; k < 4; ++k) {
    uint next = rest / p.sizes[k], at = rest - next * p.sizes[k];
    d += at * p.dst_strides[k];
    s += at * p.src_strides[k];
    rest = next;
  }
  uint i0 = gl_WorkGroupID.x * SIDE, j0 = gl_WorkGroupID.y * SIDE;
  if (PAIRS) {
    move_pairs(d, s, i0, j0);
    return;
  }
  uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  [[unroll]] for (uint k = 0u; k < 32u; k += 8u) {
    uint i = i0 + y + k, j = j0 + x;
    if (i < p.size_i && j < p.size_j) {
      uvec4 bits = load_raw(p.src, uint64_t(s + i * p.src_stride_i + j), DTYPE);
      tile[(y + k) * 33u + x] = bits.xy;
      if (DTYPE == AULE_DT_RAW16) upper[(y + k) * 33u + x] = bits.zw;
    }
  }
  barrier();  // the whole tile is written before its columns are read
  [[unroll]] for (uint k = 0u; k < 32u; k += 8u) {
    uint i = i0 + x, j = j0 + y + k;
    const uint at = x * 33u + y + k;
    if (i < p.size_i && j < p.size_j)
      store_raw(p.dst, uint64_t(d + j * p.dst_stride_j + i), DTYPE,
          uvec4(tile[at], DTYPE == AULE_DT_RAW16 ? upper[at] : uvec2(0u)));
  }
}
