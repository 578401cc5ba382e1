// Rows: pooling.
#include "ops/pool/pool.h"

#include "aten/register.h"
#include "ops/pool/fractional.h"

namespace aule::aten {
using ops::FractionalPool;
using ops::Pool;
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("max_pool2d_with_indices.out", Pool<2>::max_out));
  m.impl(ROW("max_pool2d_with_indices_backward.grad_input", Pool<2>::max_backward_out));
  m.impl(ROW("max_pool3d_with_indices", Pool<3>::max));
  m.impl(ROW("max_pool3d_with_indices.out", Pool<3>::max_out));
  m.impl(ROW("max_pool3d_with_indices_backward", Pool<3>::max_backward));
  m.impl(ROW("max_pool3d_with_indices_backward.grad_input", Pool<3>::max_backward_out));
  m.impl(ROW("avg_pool2d.out", Pool<2>::avg_out));
  m.impl(ROW("avg_pool2d_backward.grad_input", Pool<2>::avg_backward_out));
  m.impl(ROW("avg_pool3d.out", Pool<3>::avg_out));
  m.impl(ROW("avg_pool3d_backward.grad_input", Pool<3>::avg_backward_out));
  m.impl(ROW("_adaptive_avg_pool2d", Pool<2>::adaptive_avg));
  m.impl(ROW("_adaptive_avg_pool2d_backward", Pool<2>::adaptive_avg_backward));
  m.impl(ROW("_adaptive_avg_pool3d", Pool<3>::adaptive_avg));
  m.impl(ROW("_adaptive_avg_pool3d_backward", Pool<3>::adaptive_avg_backward));
  m.impl(ROW("adaptive_avg_pool2d.out", Pool<2>::adaptive_avg_out));
  m.impl(ROW("adaptive_avg_pool3d.out", Pool<3>::adaptive_avg_out));
  m.impl(ROW("adaptive_max_pool2d.out", Pool<2>::adaptive_max_out));
  m.impl(ROW("adaptive_max_pool2d_backward.grad_input", Pool<2>::adaptive_max_backward_out));
  m.impl(ROW("adaptive_max_pool3d.out", Pool<3>::adaptive_max_out));
  m.impl(ROW("adaptive_max_pool3d_backward.grad_input", Pool<3>::adaptive_max_backward_out));
  m.impl(ROW("fractional_max_pool2d.output", FractionalPool<2>::max_out));
  m.impl(ROW("fractional_max_pool2d_backward.grad_input", FractionalPool<2>::backward_out));
  m.impl(ROW("fractional_max_pool3d.output", FractionalPool<3>::max_out));
  m.impl(ROW("fractional_max_pool3d_backward", FractionalPool<3>::backward));
  m.impl(ROW("fractional_max_pool3d_backward.grad_input", FractionalPool<3>::backward_out));
  m.impl(ROW("max_unpool2d", ops::max_unpool2d));
  m.impl(ROW("max_unpool2d.out", ops::max_unpool2d_out));
  m.impl(ROW("max_unpool3d", ops::max_unpool3d));
  m.impl(ROW("max_unpool3d.out", ops::max_unpool3d_out));
}
}  // namespace aule::aten
