// dst[sum i_k ds_k] = convert(src[sum i_k ss_k]) over up to 8 dimensions, dimension 0 the fastest in dst.
// Strides are in elements and have 32 bits. The host merges dimensions and splits larger tensors.
// One invocation moves EACH elements along dimension 0, which share the divisions. Bits move in units as wide as rows
// allow, up to 16 bytes: wide_units() in ops/copy/plan.cpp. What was tried: docs/ladders/copy_strided.md
// DST_PACKED, SRC_PACKED: that side is dense along dimension 0 and aligned, so it takes one wide access.
#pragma aule axis C raw float int64 double double_bits vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#define VEC_ELEMS 4
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"

struct Params {
  uint64_t dst;
  uint64_t src;
  uint vecs;      // of EACH elements along dimension 0, times the other dimensions
  uint row_vecs;  // along dimension 0
  uint ndim;
  uint sizes[7];    // the last dimension's size is not needed
  uint dst_strides[8];
  uint src_strides[8];
};
#include "common/params.glsl"

layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DST_DTYPE = 0;
layout(constant_id = 1) const int SRC_DTYPE = 0;
layout(constant_id = 2) const bool DST_PACKED = false;
layout(constant_id = 3) const bool SRC_PACKED = false;
layout(constant_id = 4) const bool ONE_DIM = false;  // one dimension, sizes[0] long
// C_raw: sign bits to flip, for conjugation and negation without arithmetic. Bit i (0 to 3) stands for 32-bit word i,
// bit 4 for the lower half of word 0.
layout(constant_id = 5) const uint SIGNS = 0;
layout(constant_id = 6) const uint EACH = 4;  // VEC_ELEMS; C_raw: fewer if they are wide, so that lanes are neighbours

void main() {
  uint64_t linear = linear_invocation();
  if (linear >= uint64_t(p.vecs)) return;
  uint rest = ONE_DIM ? 0u : uint(linear) / p.row_vecs;
  uint first = (uint(linear) - rest * p.row_vecs) * EACH;
  uint count = min(EACH, p.sizes[0] - first);
  uint d = first * p.dst_strides[0], s = first * p.src_strides[0];
  if (!ONE_DIM) {
    for (uint k = 1; k + 1 < p.ndim; ++k) {
      uint next = rest / p.sizes[k], i = rest - next * p.sizes[k];
      d += i * p.dst_strides[k];
      s += i * p.src_strides[k];
      rest = next;
    }
    d += rest * p.dst_strides[p.ndim - 1];
    s += rest * p.src_strides[p.ndim - 1];
  }
#ifdef C_raw
  const uvec4 flip =
      ((uvec4(SIGNS) >> uvec4(0, 1, 2, 3)) & 1u) << 31 ^ uvec4(((SIGNS >> 4) & 1u) << 15, 0, 0, 0);
  for (uint i = 0; i < count; ++i) {
    uvec4 x = load_raw(p.src, uint64_t(s + i * p.src_strides[0]), SRC_DTYPE);
    if (SIGNS != 0) x ^= flip;
    store_raw(p.dst, uint64_t(d + i * p.dst_strides[0]), DST_DTYPE, x);
  }
#else
  bool whole = count == uint(VEC_ELEMS);
  T x[VEC_ELEMS];
  if (SRC_PACKED && whole) {
    Words w = load_words(p.src + uint64_t(s) * dtype_bytes(SRC_DTYPE), VEC_ELEMS * dtype_bytes(SRC_DTYPE));
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = unpack_T(w, i, SRC_DTYPE);
  } else {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i)
      if (uint(i) < count) x[i] = load_T(p.src, uint64_t(s + uint(i) * p.src_strides[0]), SRC_DTYPE);
  }
  if (DST_PACKED && whole) {
    Words w;
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(w, i, DST_DTYPE, x[i]);
    store_words(p.dst + uint64_t(d) * dtype_bytes(DST_DTYPE), VEC_ELEMS * dtype_bytes(DST_DTYPE), w);
  } else {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i)
      if (uint(i) < count) store_T(p.dst, uint64_t(d + uint(i) * p.dst_strides[0]), DST_DTYPE, x[i]);
  }
#endif
}
