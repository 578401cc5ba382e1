// dst[sum i_k s_k] = value, as bits of any dtype. Dimension 0 is the fastest. Dense fills of whole words are transfer
// commands instead. One invocation writes 4 elements along dimension 0.
#define VEC_ELEMS 4
#include "common/dtype.glsl"

struct Params {
  uint64_t dst;
  uint vecs;      // of 4 elements along dimension 0, times the other dimensions
  uint row_vecs;  // along dimension 0
  uint ndim;
  uint value[4];
  uint sizes[7];
  uint strides[8];
};
#include "common/params.glsl"

layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;  // a RAW code

void main() {
  uint64_t linear = linear_invocation();
  if (linear >= uint64_t(p.vecs)) return;
  uint rest = uint(linear) / p.row_vecs;
  uint first = (uint(linear) - rest * p.row_vecs) * VEC_ELEMS;
  uint count = min(uint(VEC_ELEMS), p.sizes[0] - first);
  uint d = first * p.strides[0];
  if (p.ndim > 1) {
    for (uint k = 1; k + 1 < p.ndim; ++k) {
      uint next = rest / p.sizes[k];
      d += (rest - next * p.sizes[k]) * p.strides[k];
      rest = next;
    }
    d += rest * p.strides[p.ndim - 1];
  }
  uvec4 value = uvec4(p.value[0], p.value[1], p.value[2], p.value[3]);
  for (uint i = 0; i < count; ++i) store_raw(p.dst, uint64_t(d + i * p.strides[0]), DTYPE, value);
}
