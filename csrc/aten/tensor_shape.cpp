#include "ops/tensor_shape.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat.out", GUARDED(ops::cat_out));
  m.impl("tril.out", GUARDED(ops::tril_out));
  m.impl("triu.out", GUARDED(ops::triu_out));
  m.impl("flip", GUARDED(ops::flip));
  m.impl("roll", GUARDED(ops::roll));
  m.impl("repeat_interleave.Tensor", GUARDED(ops::repeat_interleave));
  m.impl("unfold_backward", GUARDED(ops::unfold_backward));
  m.impl("bincount", GUARDED(ops::bincount));
}
}  // namespace aule
