// Unary rows, and the unary ops with arguments of their own.
#include "ops/pointwise_unary.h"
#include "aten/pointwise_register.h"

#define UNARY_REAL(id, name, forms, ...) AULE_ROW_##forms(Unary, ops::unary_row::name, name)
#define UNARY_ANY UNARY_REAL
#define UNARY_INT UNARY_REAL
#define UNARY_TEST UNARY_REAL
#define UNARY_SPECIAL UNARY_REAL

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/unary_ops.def"

  m.impl("logical_not", GUARDED(ops::logical_not));
  m.impl("logical_not_", GUARDED(ops::logical_not_));
  m.impl("logical_not.out", GUARDED(ops::logical_not_out));
  m.impl("bitwise_not", GUARDED(ops::bitwise_not));
  m.impl("bitwise_not_", GUARDED(ops::bitwise_not_));
  m.impl("bitwise_not.out", GUARDED(ops::bitwise_not_out));
  m.impl("round.decimals_out", GUARDED(ops::round_decimals_out));
  m.impl("nan_to_num.out", GUARDED(ops::nan_to_num_out));
  m.impl("angle", GUARDED(ops::angle));
  m.impl("angle.out", GUARDED(ops::angle_out));
  m.impl("logit", GUARDED(ops::logit));
  m.impl("logit_", GUARDED(ops::logit_));
  m.impl("logit.out", GUARDED(ops::logit_out));
  m.impl("polygamma.out", GUARDED(ops::polygamma_out));
  m.impl("clamp", GUARDED(ops::clamp));
  m.impl("clamp_", GUARDED(ops::clamp_));
  m.impl("clamp.out", GUARDED(ops::clamp_out));
  m.impl("clamp.Tensor_out", GUARDED(ops::clamp_tensor_out));
  m.impl("clamp_min.out", GUARDED(ops::clamp_min_out));
  m.impl("clamp_min.Tensor_out", GUARDED(ops::clamp_min_tensor_out));
  m.impl("clamp_max.out", GUARDED(ops::clamp_max_out));
  m.impl("clamp_max.Tensor_out", GUARDED(ops::clamp_max_tensor_out));
}

}  // namespace aule::aten
