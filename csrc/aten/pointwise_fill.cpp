// fill_ and zero_.
#include "aten/register.h"
#include "ops/copy_kernels.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", GUARDED(ops::fill__scalar));
  m.impl("fill_.Tensor", GUARDED(ops::fill__tensor));
  m.impl("zero_", GUARDED(ops::zero_));
}

}  // namespace aule::aten
