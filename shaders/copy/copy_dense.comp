// dst[i] = convert(src[i]) over two dense tensors of the same order and different dtypes.
// C is the type between the two: int64 between integers, double if either side is float64 (its bits if the device has
// no float64), a pair if either is complex, else float.
// One invocation moves 8 elements: 16-byte accesses for 2-byte and wider types.
#pragma aule axis C float int64 double double_bits vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#define VEC_ELEMS 8
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"

struct Params {
  uint64_t dst;
  uint64_t src;
  uint n;
};
#include "common/params.glsl"

layout(local_size_x = 128) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DST_DTYPE = 0;
layout(constant_id = 1) const int SRC_DTYPE = 0;
layout(constant_id = 2) const bool ALIGNED = false;

void main() {
  uint64_t first = linear_invocation() * VEC_ELEMS;
  if (first >= uint64_t(p.n)) return;
  if (ALIGNED && first + VEC_ELEMS <= uint64_t(p.n)) {
    Words a = load_words(p.src + first * dtype_bytes(SRC_DTYPE), VEC_ELEMS * dtype_bytes(SRC_DTYPE)), r;
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(r, i, DST_DTYPE, unpack_T(a, i, SRC_DTYPE));
    store_words(p.dst + first * dtype_bytes(DST_DTYPE), VEC_ELEMS * dtype_bytes(DST_DTYPE), r);
    return;
  }
  uint64_t end = lesser(first + VEC_ELEMS, uint64_t(p.n));
  for (uint64_t i = first; i < end; ++i) store_T(p.dst, i, DST_DTYPE, load_T(p.src, i, SRC_DTYPE));
}
