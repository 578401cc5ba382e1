// Elementwise losses.
#include "ops/pointwise_loss.h"
#include "aten/register.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mse_loss", GUARDED(ops::mse_loss));
  m.impl("mse_loss.out", GUARDED(ops::mse_loss_out));
  m.impl("mse_loss_backward", GUARDED(ops::mse_loss_backward));
  m.impl("mse_loss_backward.grad_input", GUARDED(ops::mse_loss_backward_out));
  m.impl("smooth_l1_loss", GUARDED(ops::smooth_l1_loss));
  m.impl("smooth_l1_loss.out", GUARDED(ops::smooth_l1_loss_out));
  m.impl("smooth_l1_loss_backward.grad_input", GUARDED(ops::smooth_l1_loss_backward_out));
  m.impl("huber_loss", GUARDED(ops::huber_loss));
  m.impl("huber_loss.out", GUARDED(ops::huber_loss_out));
  m.impl("huber_loss_backward.out", GUARDED(ops::huber_loss_backward_out));
  m.impl("binary_cross_entropy", GUARDED(ops::binary_cross_entropy));
  m.impl("binary_cross_entropy.out", GUARDED(ops::binary_cross_entropy_out));
  m.impl("binary_cross_entropy_backward", GUARDED(ops::binary_cross_entropy_backward));
  m.impl("binary_cross_entropy_backward.grad_input", GUARDED(ops::binary_cross_entropy_backward_out));
}

}  // namespace aule::aten
