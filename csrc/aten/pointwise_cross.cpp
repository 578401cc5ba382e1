#include "aten/register.h"
#include "ops/pointwise/cross.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl(ROW("linalg_cross.out", ops::linalg_cross_out)); }
}  // namespace aule
