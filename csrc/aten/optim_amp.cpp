// Loss scaling.
#include "aten/register.h"
#include "ops/optim/amp.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_amp_foreach_non_finite_check_and_unscale_", ops::amp_foreach_non_finite_check_and_unscale_));
  m.impl(ROW("_amp_update_scale_", ops::amp_update_scale_));
}

}  // namespace aule::aten
