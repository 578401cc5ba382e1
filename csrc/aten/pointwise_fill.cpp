// fill_ and zero_.
#include "aten/register.h"
#include "ops/copy/kernels.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("fill_.Scalar", ops::fill__scalar));
  m.impl(ROW("fill_.Tensor", ops::fill__tensor));
  m.impl(ROW("zero_", ops::zero_));
}

}  // namespace aule::aten
