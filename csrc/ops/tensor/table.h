// Fills the table of a multi-tensor kernel (shaders/common/multi_tensor.glsl) and launches it for TENSORS at a time.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

inline constexpr uint32_t kTableTensors = 48, kTableGroupElems = 1024;  // TENSORS and GROUP_ELEMS there

// True if the elements, in memory order, are one dense run.
inline bool walks_dense(const at::Tensor& t) { return t.is_non_overlapping_and_dense(); }
inline bool same_walk(const at::Tensor& a, const at::Tensor& b) {
  return b.is_non_overlapping_and_dense() && a.sizes() == b.sizes() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

// add(p, args, at, i) puts the addresses of tensor i, of elems_of(i) elements, into entry `at` of the params. Those
// without elements are left out. go(p, args, grid) launches them, a workgroup for each group_elems of a tensor.
template <class Params, class Elems, class Add, class Go>
void for_each_table(size_t count, uint32_t group_elems, const Elems& elems_of, const Params& base, const Add& add,
                    const Go& go) {
  size_t i = 0;
  while (i < count) {
    Params p = base;
    TensorArgs args;
    uint32_t groups = 0;
    p.tensors = 0;
    for (; i < count && p.tensors < kTableTensors; ++i) {
      const int64_t elems = elems_of(i);
      if (elems == 0) continue;
      TORCH_CHECK(elems < (int64_t{1} << 31),
                  "aule: a tensor of 2^31 elements or more is too large for a kernel of many tensors");
      p.elems[p.tensors] = static_cast<uint32_t>(elems);
      p.first_group[p.tensors] = groups;
      add(p, args, p.tensors, i);
      groups += ceil_div(static_cast<uint64_t>(elems), group_elems);
      ++p.tensors;
    }
    if (p.tensors > 0) go(p, args, linear_grid(groups));
  }
}
template <class Params, class Add, class Go>
void for_each_table(at::TensorList tensors, const Params& base, const Add& add, const Go& go) {
  for_each_table(tensors.size(), kTableGroupElems, [&](size_t i) { return tensors[i].numel(); }, base, add, go);
}

}  // namespace aule::ops
