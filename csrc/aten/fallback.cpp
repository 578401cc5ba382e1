// The boxed fallback for every operator without a row.
#include "ops/fallback.h"

#include <torch/library.h>

namespace aule {
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&ops::cpu_fallback>()); }
// As a structured operator it would make its results first, each on the device of one of its arguments, and fail with a
// text about PyTorch's insides if those are two.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_linalg_solve_ex", torch::CppFunction::makeFromBoxedFunction<&ops::cpu_fallback>());
}
}  // namespace aule
