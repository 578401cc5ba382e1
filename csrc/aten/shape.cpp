#include "ops/shape/shape.h"

#include "aten/register.h"
#include "ops/copy/many.h"

namespace aule::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("cat", ops::cat));
  m.impl(ROW("cat.out", ops::cat_out));
  m.impl(ROW("_chunk_cat", ops::chunk_cat));
  m.impl(ROW("_chunk_cat.out", ops::chunk_cat_out));
  m.impl(ROW("split_with_sizes_copy.out", ops::split_with_sizes_copy_out));
  m.impl(ROW("narrow_copy.out", ops::narrow_copy_out));
  m.impl(ROW("channel_shuffle", ops::channel_shuffle));
  m.impl(ROW("tril.out", ops::tril_out));
  m.impl(ROW("triu.out", ops::triu_out));
  m.impl(ROW("flip", ops::flip));
  m.impl(ROW("roll", ops::roll));
  m.impl(ROW("repeat_interleave.Tensor", ops::repeat_interleave));
  m.impl(ROW("unfold_backward", ops::unfold_backward));
  m.impl(ROW("bincount", ops::bincount));
}
}  // namespace aule::aten
