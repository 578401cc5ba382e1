// torch.ops.aule.reshape_and_cache; its fake kernel is in torch_aule/ops/attention.py.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/attention/cache_write.h"

namespace aule {

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping) "
      "-> ()");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) { m.impl("reshape_and_cache", GUARDED(ops::reshape_and_cache)); }
TORCH_LIBRARY_IMPL(aule, Autograd, m) {
  m.impl("reshape_and_cache", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace aule
