// Rows: convolution.
#include "ops/conv/conv.h"
#include "ops/conv/columns.h"

#include "aten/register.h"

namespace aule::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("convolution_overrideable", ops::convolution_overrideable));
  m.impl(ROW("convolution_backward_overrideable", ops::convolution_backward_overrideable));
  m.impl(ROW("im2col", ops::im2col));
  m.impl(ROW("im2col.out", ops::im2col_out));
  m.impl(ROW("col2im", ops::col2im));
  m.impl(ROW("col2im.out", ops::col2im_out));
}
}  // namespace aule::aten
