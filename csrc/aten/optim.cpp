#include "ops/optim/optim.h"
#include "aten/register.h"
#include "ops/copy/many.h"
#include "ops/optim/amp.h"
#include "ops/optim/foreach.h"
#include "ops/reduce/norm_lists.h"

namespace aule::aten {

// Fused optimizer steps.
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

// Loss scaling.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_amp_foreach_non_finite_check_and_unscale_", ops::amp_foreach_non_finite_check_and_unscale_));
  m.impl(ROW("_amp_update_scale_", ops::amp_update_scale_));
}

// Operations over lists of tensors; those without a row here are PyTorch's loops over single tensors.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_foreach_add_.Scalar", ops::foreach_add_scalar_));
  m.impl(ROW("_foreach_add_.List", ops::foreach_add_list_));
  m.impl(ROW("_foreach_add.List", ops::foreach_add_list));
  m.impl(ROW("_foreach_sub_.List", ops::foreach_sub_list_));
  m.impl(ROW("_foreach_mul_.Scalar", ops::foreach_mul_scalar_));
  m.impl(ROW("_foreach_mul_.List", ops::foreach_mul_list_));
  m.impl(ROW("_foreach_mul_.Tensor", ops::foreach_mul_tensor_));
  m.impl(ROW("_foreach_mul_.ScalarList", ops::foreach_mul_scalar_list_));
  m.impl(ROW("_foreach_div_.Scalar", ops::foreach_div_scalar_));
  m.impl(ROW("_foreach_div_.List", ops::foreach_div_list_));
  m.impl(ROW("_foreach_div_.ScalarList", ops::foreach_div_scalar_list_));
  m.impl(ROW("_foreach_addcmul_.Scalar", ops::foreach_addcmul_scalar_));
  m.impl(ROW("_foreach_addcmul_.ScalarList", ops::foreach_addcmul_scalar_list_));
  m.impl(ROW("_foreach_addcdiv_.Scalar", ops::foreach_addcdiv_scalar_));
  m.impl(ROW("_foreach_addcdiv_.ScalarList", ops::foreach_addcdiv_scalar_list_));
  m.impl(ROW("_foreach_lerp_.Scalar", ops::foreach_lerp_scalar_));
  m.impl(ROW("_foreach_sqrt", ops::foreach_sqrt));
  m.impl(ROW("_foreach_sqrt_", ops::foreach_sqrt_));
  m.impl(ROW("_foreach_abs", ops::foreach_abs));
  m.impl(ROW("_foreach_abs_", ops::foreach_abs_));
  m.impl(ROW("_foreach_neg", ops::foreach_neg));
  m.impl(ROW("_foreach_neg_", ops::foreach_neg_));
  m.impl(ROW("_foreach_zero", ops::foreach_zero));
  m.impl(ROW("_foreach_zero_", ops::foreach_zero_));
  m.impl(ROW("_foreach_clamp_max.List", ops::foreach_clamp_max_list));
  m.impl(ROW("_foreach_clamp_max_.List", ops::foreach_clamp_max_list_));
  m.impl(ROW("_foreach_clamp_max.Scalar", ops::foreach_clamp_max_scalar));
  m.impl(ROW("_foreach_clamp_max_.Scalar", ops::foreach_clamp_max_scalar_));
  m.impl(ROW("_foreach_clamp_min.List", ops::foreach_clamp_min_list));
  m.impl(ROW("_foreach_clamp_min_.List", ops::foreach_clamp_min_list_));
  m.impl(ROW("_foreach_clamp_min.Scalar", ops::foreach_clamp_min_scalar));
  m.impl(ROW("_foreach_clamp_min_.Scalar", ops::foreach_clamp_min_scalar_));
  m.impl(ROW("_foreach_maximum.List", ops::foreach_maximum_list));
  m.impl(ROW("_foreach_maximum_.List", ops::foreach_maximum_list_));
  m.impl(ROW("_foreach_maximum.Scalar", ops::foreach_maximum_scalar));
  m.impl(ROW("_foreach_maximum_.Scalar", ops::foreach_maximum_scalar_));
  m.impl(ROW("_foreach_minimum.List", ops::foreach_minimum_list));
  m.impl(ROW("_foreach_minimum_.List", ops::foreach_minimum_list_));
  m.impl(ROW("_foreach_minimum.Scalar", ops::foreach_minimum_scalar));
  m.impl(ROW("_foreach_minimum_.Scalar", ops::foreach_minimum_scalar_));
  m.impl(ROW("_foreach_sub_.Scalar", ops::foreach_sub_scalar_));
  m.impl(ROW("_foreach_add.Scalar", ops::foreach_add_scalar));
  m.impl(ROW("_foreach_sub.List", ops::foreach_sub_list));
  m.impl(ROW("_foreach_mul.Scalar", ops::foreach_mul_scalar));
  m.impl(ROW("_foreach_mul.List", ops::foreach_mul_list));
  m.impl(ROW("_foreach_div.Scalar", ops::foreach_div_scalar));
  m.impl(ROW("_foreach_div.List", ops::foreach_div_list));
  m.impl(ROW("_foreach_addcmul.Scalar", ops::foreach_addcmul_scalar));
  m.impl(ROW("_foreach_addcdiv.Scalar", ops::foreach_addcdiv_scalar));
  m.impl(ROW("_foreach_lerp.Scalar", ops::foreach_lerp_scalar));
  m.impl(ROW("_foreach_norm.Scalar", ops::foreach_norm));
  m.impl(ROW("_foreach_copy_", ops::foreach_copy_));
}

}  // namespace aule::aten
