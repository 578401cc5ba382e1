// Many tensors per dispatch. A workgroup takes GROUP_ELEMS consecutive elements of one tensor. The params block (in the
// stream's parameter ring) has each tensor's addresses, length and first workgroup.
// Include after dtype.glsl. `struct Params` ends with these members:
//   uint elems[TENSORS]; uint first_group[TENSORS]; uint tensors;
// A kernel that divides tensors otherwise defines OWN_GROUPS and its local size, and uses AULE_FIND_ENTRY alone.
#define TENSORS 48
#ifndef OWN_GROUPS
#define GROUP_ELEMS 1024
#define LOCAL 128
layout(local_size_x = LOCAL) in;
#endif
#include "common/indexing.glsl"
// t: the entry that has this group.
#define AULE_FIND_ENTRY(group)                                       \
  uint t = 0u, above_ = p.tensors;                                   \
  while (above_ - t > 1u) {                                          \
    uint middle_ = (t + above_) / 2u;                                \
    if (p.first_group[middle_] <= group) t = middle_;                \
    else above_ = middle_;                                           \
  }
#define AULE_FIND_TENSOR                                             \
  uint group_ = linear_group();                                      \
  AULE_FIND_ENTRY(group_)                                            \
  uint begin = (group_ - p.first_group[t]) * GROUP_ELEMS + gl_LocalInvocationID.x; \
  uint end = min((group_ - p.first_group[t] + 1u) * GROUP_ELEMS, p.elems[t]);
