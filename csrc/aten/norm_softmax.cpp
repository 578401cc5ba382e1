#include "ops/norm/softmax.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_softmax.out", ops::softmax_out));
  m.impl(ROW("_log_softmax.out", ops::log_softmax_out));
  m.impl(ROW("_softmax_backward_data.out", ops::softmax_backward_data_out));
  m.impl(ROW("_log_softmax_backward_data.out", ops::log_softmax_backward_data_out));
  m.impl(ROW("_safe_softmax", ops::safe_softmax));
  m.impl(ROW("_masked_softmax", ops::masked_softmax));
  m.impl(ROW("_masked_softmax_backward", ops::masked_softmax_backward));
}

}  // namespace
}  // namespace aule::aten
