// Many tensors per dispatch. A workgroup takes GROUP_ELEMS consecutive elements of one tensor. The params block (in the
// stream's parameter ring) has each tensor's addresses, length and first workgroup.
// Include after dtype.glsl. `struct Params` ends with these members:
//   uint elems[TENSORS]; uint first_group[TENSORS]; uint tensors;
#define TENSORS 48
#define GROUP_ELEMS 1024
#define LOCAL 128
layout(local_size_x = LOCAL) in;
#include "common/indexing.glsl"
#define AULE_FIND_TENSOR                                             \
  uint group_ = linear_group(), t = 0u, above_ = p.tensors;          \
  while (above_ - t > 1u) {                                          \
    uint middle_ = (t + above_) / 2u;                                \
    if (p.first_group[middle_] <= group_) t = middle_;               \
    else above_ = middle_;                                           \
  }                                                                  \
  uint begin = (group_ - p.first_group[t]) * GROUP_ELEMS + gl_LocalInvocationID.x; \
  uint end = min((group_ - p.first_group[t] + 1u) * GROUP_ELEMS, p.elems[t]);
