#include "ops/distance/distance.h"

#include "aten/register.h"

namespace aule::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_cdist_forward", ops::cdist_forward));
  m.impl(ROW("_cdist_backward", ops::cdist_backward));
  m.impl(ROW("_pdist_forward", ops::pdist_forward));
  m.impl(ROW("_pdist_backward", ops::pdist_backward));
}
}  // namespace aule::aten
