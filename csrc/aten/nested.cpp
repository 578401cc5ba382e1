// Operators of torch.nested's jagged tensors, which are made in Python.
#include "aten/register.h"
#include "ops/nested/jagged.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_jagged_to_padded_dense_forward", ops::jagged_to_padded_dense));
  m.impl(ROW("_padded_dense_to_jagged_forward", ops::padded_dense_to_jagged));
}

}  // namespace aule::aten
