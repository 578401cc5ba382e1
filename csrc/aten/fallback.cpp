// The boxed fallback for every operator without a row.
#include "ops/fallback.h"

#include <torch/library.h>

namespace aule {
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&ops::cpu_fallback>()); }
}  // namespace aule
