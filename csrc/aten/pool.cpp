// Rows: pooling.
#include "ops/pool.h"

#include "aten/register.h"

namespace aule {
using ops::Pool;
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool2d_with_indices.out", GUARDED(Pool<2>::max_out));
  m.impl("max_pool2d_with_indices_backward.grad_input", GUARDED(Pool<2>::max_backward_out));
  m.impl("max_pool3d_with_indices", GUARDED(Pool<3>::max));
  m.impl("max_pool3d_with_indices.out", GUARDED(Pool<3>::max_out));
  m.impl("max_pool3d_with_indices_backward", GUARDED(Pool<3>::max_backward));
  m.impl("max_pool3d_with_indices_backward.grad_input", GUARDED(Pool<3>::max_backward_out));
  m.impl("avg_pool2d.out", GUARDED(Pool<2>::avg_out));
  m.impl("avg_pool2d_backward.grad_input", GUARDED(Pool<2>::avg_backward_out));
  m.impl("avg_pool3d.out", GUARDED(Pool<3>::avg_out));
  m.impl("avg_pool3d_backward.grad_input", GUARDED(Pool<3>::avg_backward_out));
  m.impl("_adaptive_avg_pool2d", GUARDED(Pool<2>::adaptive_avg));
  m.impl("_adaptive_avg_pool2d_backward", GUARDED(Pool<2>::adaptive_avg_backward));
  m.impl("_adaptive_avg_pool3d", GUARDED(Pool<3>::adaptive_avg));
  m.impl("_adaptive_avg_pool3d_backward", GUARDED(Pool<3>::adaptive_avg_backward));
  m.impl("adaptive_avg_pool2d.out", GUARDED(Pool<2>::adaptive_avg_out));
  m.impl("adaptive_avg_pool3d.out", GUARDED(Pool<3>::adaptive_avg_out));
  m.impl("adaptive_max_pool2d.out", GUARDED(Pool<2>::adaptive_max_out));
  m.impl("adaptive_max_pool2d_backward.grad_input", GUARDED(Pool<2>::adaptive_max_backward_out));
  m.impl("adaptive_max_pool3d.out", GUARDED(Pool<3>::adaptive_max_out));
  m.impl("adaptive_max_pool3d_backward.grad_input", GUARDED(Pool<3>::adaptive_max_backward_out));
}
}  // namespace aule
