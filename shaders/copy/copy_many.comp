// dst[sum i_k ds_k] = convert(src[sum i_k ss_k]) for many pairs of tensors at once, of up to 4 dimensions, dimension 0
// the fastest in dst. C is the type between the two dtypes, as in copy_strided.comp. An entry whose src is 0 is filled
// with zeros. The host merges dimensions, and counts in 16-byte units where all of an entry is aligned to them.
// Neighbouring invocations take neighbouring elements. ALIGNED: 8 elements each by 16-byte accesses, if dense.
#pragma aule axis C raw float int64 double double_bits
#pragma aule feature float64 if C=double
#pragma aule params ring
#define VEC_ELEMS 8
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "common/multi_tensor.glsl"

struct Params {
  uint64_t dst[TENSORS];
  uint64_t src[TENSORS];
  uint dst_strides[4 * TENSORS];
  uint src_strides[4 * TENSORS];
  uint sizes[3 * TENSORS];  // the last dimension's size is not needed
  uint elems[TENSORS];
  uint first_group[TENSORS];
  uint tensors;
};
#include "common/params.glsl"

layout(constant_id = 0) const int DST_DTYPE = 0;
layout(constant_id = 1) const int SRC_DTYPE = 0;
layout(constant_id = 2) const int NDIM = 0;  // of the entry that has most; 0: all are dense on both sides
layout(constant_id = 3) const bool ZEROS = false;  // there are entries without src
layout(constant_id = 4) const bool ALIGNED = false;

void main() {
  AULE_FIND_TENSOR
  const bool zero = ZEROS && p.src[t] == uint64_t(0);
  const uint64_t to = p.dst[t], from = ZEROS ? readable(p.src[t]) : p.src[t];
#ifndef C_raw
  if (NDIM == 0 && ALIGNED) {
    const uint first = begin + 7u * gl_LocalInvocationID.x;
    const uint last = min(first + uint(VEC_ELEMS), end);
    if (first + uint(VEC_ELEMS) <= end) {
      Words a = load_words(from + (zero ? 0 : uint64_t(first) * dtype_bytes(SRC_DTYPE)),
          VEC_ELEMS * dtype_bytes(SRC_DTYPE)), r;
      [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i)
        pack_T(r, i, DST_DTYPE, zero ? T(0) : unpack_T(a, i, SRC_DTYPE));
      store_words(to + uint64_t(first) * dtype_bytes(DST_DTYPE), VEC_ELEMS * dtype_bytes(DST_DTYPE), r);
    } else {
      for (uint k = first; k < last; ++k) {
        T x = load_T(from, uint64_t(zero ? 0u : k), SRC_DTYPE);
        store_T(to, uint64_t(k), DST_DTYPE, zero ? T(0) : x);
      }
    }
    return;
  }
#endif
  [[unroll]] for (uint step = 0u; step < GROUP_ELEMS / LOCAL; ++step) {
    const uint k = begin + step * LOCAL;
    if (k >= end) break;
    uint d = k, s = zero ? 0u : k;
    if (NDIM > 0) {
      uint rest = k;
      d = 0u;
      s = 0u;  // the strides of an entry without src are 0
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (i >= NDIM) continue;
        uint at = rest;
        if (i + 1u < NDIM) {
          rest = at / p.sizes[3u * t + i];
          at -= rest * p.sizes[3u * t + i];
        }
        d += at * p.dst_strides[4u * t + i];
        s += at * p.src_strides[4u * t + i];
      }
    }
    T x = load_T(from, uint64_t(s), SRC_DTYPE);
    store_T(to, uint64_t(d), DST_DTYPE, zero ? T(0) : x);
  }
}
