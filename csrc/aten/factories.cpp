#include "ops/factories.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("arange.start_out", GUARDED(ops::arange_out));
  m.impl("range.out", GUARDED(ops::range_out));
  m.impl("linspace.out", GUARDED(ops::linspace_out));
  m.impl("logspace.out", GUARDED(ops::logspace_out));
  m.impl("eye.out", GUARDED(ops::eye_out));
  m.impl("eye.m_out", GUARDED(ops::eye_m_out));
  m.impl("tril_indices", GUARDED(ops::tril_indices));
  m.impl("triu_indices", GUARDED(ops::triu_indices));
}
}  // namespace aule
