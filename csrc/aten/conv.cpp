// Rows: convolution.
#include "ops/conv.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", GUARDED(ops::convolution_overrideable));
  m.impl("convolution_backward_overrideable", GUARDED(ops::convolution_backward_overrideable));
  m.impl("im2col", GUARDED(ops::im2col));
  m.impl("im2col.out", GUARDED(ops::im2col_out));
  m.impl("col2im", GUARDED(ops::col2im));
  m.impl("col2im.out", GUARDED(ops::col2im_out));
}
}  // namespace aule
