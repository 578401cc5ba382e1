#include "ops/indexing.h"
#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("gather.out", GUARDED(ops::gather_out));
  m.impl("index_select", GUARDED(ops::index_select));
  m.impl("index_select.out", GUARDED(ops::index_select_out));
  m.impl("take", GUARDED(ops::take));
  m.impl("take.out", GUARDED(ops::take_out));
  m.impl("index.Tensor", GUARDED(ops::index_tensor));
  m.impl("index.Tensor_out", GUARDED(ops::index_tensor_out));
  m.impl("masked_select", GUARDED(ops::masked_select));
  m.impl("masked_select.out", GUARDED(ops::masked_select_out));

  m.impl("scatter.src_out", GUARDED(ops::scatter_src_out));
  m.impl("scatter.value_out", GUARDED(ops::scatter_value_out));
  m.impl("scatter.reduce_out", GUARDED(ops::scatter_reduce_src_out));
  m.impl("scatter.value_reduce_out", GUARDED(ops::scatter_reduce_value_out));
  m.impl("scatter_add.out", GUARDED(ops::scatter_add_out));
  m.impl("scatter_reduce.two_out", GUARDED(ops::scatter_reduce_two_out));
  m.impl("index_add.out", GUARDED(ops::index_add_out));
  m.impl("index_reduce.out", GUARDED(ops::index_reduce_out));

  m.impl("index_copy.out", GUARDED(ops::index_copy_out));
  m.impl("index_fill_.int_Scalar", GUARDED(ops::index_fill_scalar_));
  m.impl("index_fill_.int_Tensor", GUARDED(ops::index_fill_tensor_));
  m.impl("put_", GUARDED(ops::put_));
  m.impl("_index_put_impl_", GUARDED(ops::index_put_impl_));
  m.impl("masked_scatter_", GUARDED(ops::masked_scatter_));
}
}  // namespace aule
