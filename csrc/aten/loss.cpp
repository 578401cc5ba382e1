#include "ops/loss.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nll_loss_forward.output", GUARDED(ops::nll_loss_forward_out));
  m.impl("nll_loss_backward.grad_input", GUARDED(ops::nll_loss_backward_out));
  m.impl("nll_loss2d_forward", GUARDED(ops::nll_loss2d_forward));
  m.impl("nll_loss2d_forward.output", GUARDED(ops::nll_loss2d_forward_out));
  m.impl("nll_loss2d_backward", GUARDED(ops::nll_loss2d_backward));
  m.impl("nll_loss2d_backward.grad_input", GUARDED(ops::nll_loss2d_backward_out));
}
}  // namespace aule
