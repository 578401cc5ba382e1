// Operations over lists of tensors; those without a row here are PyTorch's loops over single tensors.
#include "ops/foreach.h"
#include "aten/register.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_add_.Scalar", GUARDED(ops::foreach_add_scalar_));
  m.impl("_foreach_add_.List", GUARDED(ops::foreach_add_list_));
  m.impl("_foreach_add.List", GUARDED(ops::foreach_add_list));
  m.impl("_foreach_sub_.List", GUARDED(ops::foreach_sub_list_));
  m.impl("_foreach_mul_.Scalar", GUARDED(ops::foreach_mul_scalar_));
  m.impl("_foreach_mul_.List", GUARDED(ops::foreach_mul_list_));
  m.impl("_foreach_mul_.ScalarList", GUARDED(ops::foreach_mul_scalar_list_));
  m.impl("_foreach_div_.Scalar", GUARDED(ops::foreach_div_scalar_));
  m.impl("_foreach_div_.List", GUARDED(ops::foreach_div_list_));
  m.impl("_foreach_div_.ScalarList", GUARDED(ops::foreach_div_scalar_list_));
  m.impl("_foreach_addcmul_.Scalar", GUARDED(ops::foreach_addcmul_scalar_));
  m.impl("_foreach_addcmul_.ScalarList", GUARDED(ops::foreach_addcmul_scalar_list_));
  m.impl("_foreach_addcdiv_.Scalar", GUARDED(ops::foreach_addcdiv_scalar_));
  m.impl("_foreach_addcdiv_.ScalarList", GUARDED(ops::foreach_addcdiv_scalar_list_));
  m.impl("_foreach_lerp_.Scalar", GUARDED(ops::foreach_lerp_scalar_));
  m.impl("_foreach_sqrt", GUARDED(ops::foreach_sqrt));
  m.impl("_foreach_sqrt_", GUARDED(ops::foreach_sqrt_));
}

}  // namespace aule::aten
