// Rows: recurrent cells.
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "aten/register.h"
#include "ops/rnn/cells.h"

namespace aule::aten {
namespace {

using ops::OptionalTensor;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

// The kernels of cells are of real numbers. Cells of complex ones are made of operators, which have gradients by
// themselves: PyTorch's formula of a fused cell refuses complex numbers.
at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

Three complex_lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                        const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const at::Tensor gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);  // input, forget, cell, output
  const at::Tensor cy = at::sigmoid(parts[1]) * cx + at::sigmoid(parts[0]) * at::tanh(parts[2]);
  return {at::sigmoid(parts[3]) * at::tanh(cy), cy, gates};
}

Two complex_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                     const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const at::Tensor of_input = with_bias(input_gates, input_bias), of_hidden = with_bias(hidden_gates, hidden_bias);
  const std::vector<at::Tensor> i = of_input.chunk(3, 1), h = of_hidden.chunk(3, 1);  // reset, update, new
  const at::Tensor candidate = at::tanh(i[2] + at::sigmoid(i[0] + h[0]) * h[2]);
  return {(hx - candidate) * at::sigmoid(i[1] + h[1]) + candidate, of_input};
}

Three lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto cell = cx.is_complex() ? complex_lstm_cell : ops::thnn_fused_lstm_cell;
  return cell(input_gates, hidden_gates, cx, input_bias, hidden_bias);
}

Two gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto cell = hx.is_complex() ? complex_gru_cell : ops::thnn_fused_gru_cell;
  return cell(input_gates, hidden_gates, hx, input_bias, hidden_bias);
}

// PyTorch's formula is registered for every backend's autograd key, so that of AutogradOther is the one that the
// kernels below hide. What comes before autograd has been passed.
c10::DispatchKeySet without_ours(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kAfter(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradFunctionality);
  return (keys & kAfter).add(c10::DispatchKey::AutogradOther);
}

Three lstm_cell_autograd(c10::DispatchKeySet keys, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                         const at::Tensor& cx, const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  if (cx.is_complex()) return complex_lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_thnn_fused_lstm_cell", "").typed<decltype(lstm_cell)>();
  return op.redispatch(without_ours(keys), input_gates, hidden_gates, cx, input_bias, hidden_bias);
}

Two gru_cell_autograd(c10::DispatchKeySet keys, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                      const at::Tensor& hx, const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  if (hx.is_complex()) return complex_gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_thnn_fused_gru_cell", "").typed<decltype(gru_cell)>();
  return op.redispatch(without_ours(keys), input_gates, hidden_gates, hx, input_bias, hidden_bias);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_thnn_fused_lstm_cell", lstm_cell));
  m.impl(ROW("_thnn_fused_lstm_cell_backward_impl", ops::thnn_fused_lstm_cell_backward_impl));
  m.impl(ROW("_thnn_fused_gru_cell", gru_cell));
  m.impl(ROW("_thnn_fused_gru_cell_backward", ops::thnn_fused_gru_cell_backward));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell_autograd));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell_autograd));
}
}  // namespace aule::aten
