// Complex numbers made of real ones, and conjugates.
#include "aten/register.h"
#include "ops/pointwise/complex.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("complex.out", ops::complex_out));
  m.impl(ROW("polar.out", ops::polar_out));
  m.impl(ROW("conj_physical.out", ops::conj_physical_out));
  m.impl(ROW("conj_physical_", ops::conj_physical_));
}

}  // namespace aule::aten
