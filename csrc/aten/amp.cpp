// Loss scaling.
#include "ops/amp.h"
#include "aten/register.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", GUARDED(ops::amp_foreach_non_finite_check_and_unscale_));
  m.impl("_amp_update_scale_", GUARDED(ops::amp_update_scale_));
}

}  // namespace aule::aten
