// Elementwise losses.
#include "aten/register.h"
#include "ops/pointwise/loss.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("mse_loss", ops::mse_loss));
  m.impl(ROW("mse_loss.out", ops::mse_loss_out));
  m.impl(ROW("mse_loss_backward", ops::mse_loss_backward));
  m.impl(ROW("mse_loss_backward.grad_input", ops::mse_loss_backward_out));
  m.impl(ROW("smooth_l1_loss", ops::smooth_l1_loss));
  m.impl(ROW("smooth_l1_loss.out", ops::smooth_l1_loss_out));
  m.impl(ROW("smooth_l1_loss_backward.grad_input", ops::smooth_l1_loss_backward_out));
  m.impl(ROW("huber_loss", ops::huber_loss));
  m.impl(ROW("huber_loss.out", ops::huber_loss_out));
  m.impl(ROW("huber_loss_backward.out", ops::huber_loss_backward_out));
  m.impl(ROW("binary_cross_entropy", ops::binary_cross_entropy));
  m.impl(ROW("binary_cross_entropy.out", ops::binary_cross_entropy_out));
  m.impl(ROW("binary_cross_entropy_backward", ops::binary_cross_entropy_backward));
  m.impl(ROW("binary_cross_entropy_backward.grad_input", ops::binary_cross_entropy_backward_out));
}

}  // namespace aule::aten
