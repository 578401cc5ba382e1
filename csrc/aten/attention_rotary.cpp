// torch.ops.aule.rotary_embedding; its gradient and fake kernel are in torch_aule/ops/rotary.py.
#include "ops/attention/rotary.h"

#include "aten/register.h"

namespace aule {

#define AULE_ROTARY "Tensor cos, Tensor sin, Tensor? positions=None, bool interleaved=False, bool inverse=False"

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def("rotary_embedding(Tensor x, " AULE_ROTARY ") -> Tensor");
  m.def("rotary_embedding_(Tensor(a!) x, " AULE_ROTARY ") -> ()");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("rotary_embedding", GUARDED(ops::rotary_embedding));
  m.impl("rotary_embedding_", GUARDED(ops::rotary_embedding_));
}

}  // namespace aule
