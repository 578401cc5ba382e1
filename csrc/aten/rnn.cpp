// Rows: recurrent cells.
#include "ops/rnn.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", GUARDED(ops::thnn_fused_lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", GUARDED(ops::thnn_fused_lstm_cell_backward_impl));
  m.impl("_thnn_fused_gru_cell", GUARDED(ops::thnn_fused_gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", GUARDED(ops::thnn_fused_gru_cell_backward));
}
}  // namespace aule
