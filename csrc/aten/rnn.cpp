// Rows: recurrent cells.
#include "ops/rnn/cells.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_thnn_fused_lstm_cell", ops::thnn_fused_lstm_cell));
  m.impl(ROW("_thnn_fused_lstm_cell_backward_impl", ops::thnn_fused_lstm_cell_backward_impl));
  m.impl(ROW("_thnn_fused_gru_cell", ops::thnn_fused_gru_cell));
  m.impl(ROW("_thnn_fused_gru_cell_backward", ops::thnn_fused_gru_cell_backward));
}
}  // namespace aule
