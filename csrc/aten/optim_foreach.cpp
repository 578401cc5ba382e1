// Operations over lists of tensors; those without a row here are PyTorch's loops over single tensors.
#include "ops/optim/foreach.h"

#include "aten/register.h"
#include "ops/copy/many.h"
#include "ops/reduce/norm_lists.h"

namespace aule::aten {

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
  m.impl(ROW("_foreach_norm.Scalar", ops::foreach_norm));
  m.impl(ROW("_foreach_copy_", ops::foreach_copy_));
}

}  // namespace aule::aten
