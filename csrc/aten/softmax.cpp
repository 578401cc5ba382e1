#include "ops/softmax.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_softmax.out", GUARDED(ops::softmax_out));
  m.impl("_log_softmax.out", GUARDED(ops::log_softmax_out));
  m.impl("_softmax_backward_data.out", GUARDED(ops::softmax_backward_data_out));
  m.impl("_log_softmax_backward_data.out", GUARDED(ops::log_softmax_backward_data_out));
  m.impl("_safe_softmax", GUARDED(ops::safe_softmax));
  m.impl("_masked_softmax", GUARDED(ops::masked_softmax));
  m.impl("_masked_softmax_backward", GUARDED(ops::masked_softmax_backward));
}

}  // namespace
}  // namespace aule::aten
