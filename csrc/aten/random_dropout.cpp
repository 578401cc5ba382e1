#include "ops/random/dropout.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("native_dropout", ops::native_dropout));
  m.impl(ROW("native_dropout_backward", ops::native_dropout_backward));
}
}  // namespace aule
