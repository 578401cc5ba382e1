// Unary table entries, and the unary ops with arguments of their own.
#include "aten/pointwise_register.h"
#include "ops/pointwise/unary.h"

#define UNARY_REAL(id, name, forms, ...) AULE_ENTRY_##forms(Unary, ops::unary_entry::name, name)
#define UNARY_ANY UNARY_REAL
#define UNARY_INT UNARY_REAL
#define UNARY_TEST UNARY_REAL
#define UNARY_SPECIAL UNARY_REAL

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/unary_ops.def"

  m.impl(ROW("logical_not", ops::logical_not));
  m.impl(ROW("logical_not_", ops::logical_not_));
  m.impl(ROW("logical_not.out", ops::logical_not_out));
  m.impl(ROW("bitwise_not", ops::bitwise_not));
  m.impl(ROW("bitwise_not_", ops::bitwise_not_));
  m.impl(ROW("bitwise_not.out", ops::bitwise_not_out));
  m.impl(ROW("round.decimals_out", ops::round_decimals_out));
  m.impl(ROW("nan_to_num.out", ops::nan_to_num_out));
  m.impl(ROW("angle", ops::angle));
  m.impl(ROW("angle.out", ops::angle_out));
  m.impl(ROW("logit", ops::logit));
  m.impl(ROW("logit_", ops::logit_));
  m.impl(ROW("logit.out", ops::logit_out));
  m.impl(ROW("mvlgamma.out", ops::mvlgamma_out));
  m.impl(ROW("polygamma.out", ops::polygamma_out));
  m.impl(ROW("frexp.Tensor_out", ops::frexp_out));
  m.impl(ROW("clamp", ops::clamp));
  m.impl(ROW("clamp_", ops::clamp_));
  m.impl(ROW("clamp.out", ops::clamp_out));
  m.impl(ROW("clamp.Tensor_out", ops::clamp_tensor_out));
  m.impl(ROW("clamp_min.out", ops::clamp_min_out));
  m.impl(ROW("clamp_min.Tensor_out", ops::clamp_min_tensor_out));
  m.impl(ROW("clamp_max.out", ops::clamp_max_out));
  m.impl(ROW("clamp_max.Tensor_out", ops::clamp_max_tensor_out));
}

}  // namespace aule::aten
