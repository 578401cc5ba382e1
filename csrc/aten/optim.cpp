// Fused optimizer steps.
#include "ops/optim/optim.h"
#include "aten/register.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_fused_adam_", ops::fused_adam_<false>));
  m.impl(ROW("_fused_adam_.tensor_lr", ops::fused_adam_tensor_lr_<false>));
  m.impl(ROW("_fused_adamw_", ops::fused_adam_<true>));
  m.impl(ROW("_fused_adamw_.tensor_lr", ops::fused_adam_tensor_lr_<true>));
  m.impl(ROW("_fused_sgd_", ops::fused_sgd_));
  m.impl(ROW("_fused_sgd_.tensor_lr", ops::fused_sgd_tensor_lr_));
  m.impl(ROW("_fused_adagrad_", ops::fused_adagrad_));
  m.impl(ROW("_fused_adagrad_.tensor_lr", ops::fused_adagrad_tensor_lr_));
}

}  // namespace aule::aten
