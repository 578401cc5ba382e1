#include "ops/embedding.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("embedding", GUARDED(ops::embedding));
  m.impl("embedding_dense_backward", GUARDED(ops::embedding_dense_backward));
  m.impl("embedding_renorm_", GUARDED(ops::embedding_renorm_));
}
}  // namespace aule
