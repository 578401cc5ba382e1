#include "ops/embedding.h"

#include "aten/register.h"
#include "ops/embedding_bag.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("embedding", GUARDED(ops::embedding));
  m.impl("embedding_dense_backward", GUARDED(ops::embedding_dense_backward));
  m.impl("embedding_renorm_", GUARDED(ops::embedding_renorm_));
  m.impl("_embedding_bag", GUARDED(ops::embedding_bag));
  m.impl("_embedding_bag_forward_only", GUARDED(ops::embedding_bag));
  m.impl("_embedding_bag_backward", GUARDED(ops::embedding_bag_backward));
  m.impl("_embedding_bag_dense_backward", GUARDED(ops::embedding_bag_dense_backward));
  m.impl("_embedding_bag_per_sample_weights_backward", GUARDED(ops::embedding_bag_per_sample_weights_backward));
}
}  // namespace aule
