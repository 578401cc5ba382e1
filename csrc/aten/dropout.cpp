#include "ops/dropout.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", GUARDED(ops::native_dropout));
  m.impl("native_dropout_backward", GUARDED(ops::native_dropout_backward));
}
}  // namespace aule
