#include "ops/embedding/embedding.h"

#include "aten/register.h"
#include "ops/embedding/bag.h"

namespace aule::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("embedding", ops::embedding));
  m.impl(ROW("embedding_dense_backward", ops::embedding_dense_backward));
  m.impl(ROW("embedding_renorm_", ops::embedding_renorm_));
  m.impl(ROW("_embedding_bag", ops::embedding_bag));
  m.impl(ROW("_embedding_bag_forward_only", ops::embedding_bag));
  m.impl(ROW("_embedding_bag_backward", ops::embedding_bag_backward));
  m.impl(ROW("_embedding_bag_dense_backward", ops::embedding_bag_dense_backward));
  m.impl(ROW("_embedding_bag_per_sample_weights_backward", ops::embedding_bag_per_sample_weights_backward));
}
}  // namespace aule::aten
