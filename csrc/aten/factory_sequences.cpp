#include "ops/factory/sequences.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("arange.start_out", ops::arange_out));
  m.impl(ROW("range.out", ops::range_out));
  m.impl(ROW("linspace.out", ops::linspace_out));
  m.impl(ROW("logspace.out", ops::logspace_out));
  m.impl(ROW("eye.out", ops::eye_out));
  m.impl(ROW("eye.m_out", ops::eye_m_out));
  m.impl(ROW("tril_indices", ops::tril_indices));
  m.impl(ROW("triu_indices", ops::triu_indices));
}
}  // namespace aule
