// Launch shapes of the rowwise kernels (shaders/norm/rowwise.glsl): an invocation or a workgroup per row.
#pragma once
#include <initializer_list>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

struct RowLaunch {
  int group;     // 0: one invocation per row; one workgroup (GPU, rows contiguous), 1: tree, 2: subgroup sums
  int vec;       // 1: four elements per access; 2: eight of half types; 3: the same of rows at any address
                 // (shaders/norm/rowwise_group.glsl)
  int items;     // groups of four that an invocation of the workgroup keeps in registers; 0: row too long, read again
  bool is_full;  // items cover the row exactly and vec is not 0
  uint32_t local;
  Grid grid;
};

// `alone`: an invocation per row on every device. `any`: if not 0, the kernel takes vec 3, with this many invocations
// for a row that is too long for the registers. `tensors`: all operands that have rows. They are contiguous, with rows
// of n elements and neighbours `inner` apart.
RowLaunch row_launch(const Caps& caps, uint64_t rows, uint64_t n, uint64_t inner,
                     std::initializer_list<const at::Tensor*> tensors, bool alone = false, uint32_t any = 0);

// The dtype of a weight or gradient, or float32 if it is undefined. Kernels do not use the dtype of an absent operand.
inline DType dtype_or_float(const at::Tensor& t, const char* name) {
  return t.defined() ? dtype_of(t, name) : DType::f32;
}

}  // namespace aule::ops
