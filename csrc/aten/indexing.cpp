#include "ops/indexing/indexing.h"
#include "aten/register.h"

namespace aule::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("gather.out", ops::gather_out));
  m.impl(ROW("index_select", ops::index_select));
  m.impl(ROW("index_select.out", ops::index_select_out));
  m.impl(ROW("take", ops::take));
  m.impl(ROW("take.out", ops::take_out));
  m.impl(ROW("index.Tensor", ops::index_tensor));
  m.impl(ROW("index.Tensor_out", ops::index_tensor_out));
  m.impl(ROW("masked_select", ops::masked_select));
  m.impl(ROW("masked_select.out", ops::masked_select_out));

  m.impl(ROW("scatter.src_out", ops::scatter_src_out));
  m.impl(ROW("scatter.value_out", ops::scatter_value_out));
  m.impl(ROW("scatter.reduce_out", ops::scatter_reduce_src_out));
  m.impl(ROW("scatter.value_reduce_out", ops::scatter_reduce_value_out));
  m.impl(ROW("scatter_add.out", ops::scatter_add_out));
  m.impl(ROW("scatter_reduce.two_out", ops::scatter_reduce_two_out));
  m.impl(ROW("index_add.out", ops::index_add_out));
  m.impl(ROW("index_reduce.out", ops::index_reduce_out));

  m.impl(ROW("index_copy.out", ops::index_copy_out));
  m.impl(ROW("index_fill_.int_Scalar", ops::index_fill_scalar_));
  m.impl(ROW("index_fill_.int_Tensor", ops::index_fill_tensor_));
  m.impl(ROW("put_", ops::put_));
  m.impl(ROW("_index_put_impl_", ops::index_put_impl_));
  m.impl(ROW("masked_scatter_", ops::masked_scatter_));

  m.impl(ROW("_assert_async", ops::assert_async));
  m.impl(ROW("_assert_async.msg", ops::assert_async_msg));
  m.impl(ROW("_functional_assert_async.msg", ops::functional_assert_async_msg));
}
}  // namespace aule::aten
