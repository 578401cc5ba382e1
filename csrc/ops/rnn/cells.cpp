#include "ops/rnn/cells.h"

#include <ATen/ops/empty.h>

#include "kernels_rnn.gen.h"
#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

void check_cell(const char* op, const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& state,
                int64_t gates) {
  check_same_device(op, {&input_gates, &hidden_gates, &state});
  check_floating(op, state);
  check_float64(op, state);
  TORCH_CHECK(state.dim() == 2 && input_gates.dim() == 2 && input_gates.sizes() == hidden_gates.sizes() &&
                  input_gates.size(0) == state.size(0) && input_gates.size(1) == gates * state.size(1),
              op, ": expected gates of shape [batch, ", gates, " * hidden] and a state of shape [batch, hidden], got ",
              input_gates.sizes(), ", ", hidden_gates.sizes(), " and ", state.sizes());
}
// Contiguous for the kernel, or an undefined tensor.
at::Tensor dense(const OptionalTensor& t) { return t.has_value() && t->defined() ? t->contiguous() : at::Tensor(); }

// Operands of the forward of both cells besides the state, contiguous.
struct Gates {
  at::Tensor input, hidden, input_bias, hidden_bias;
  Gates(const at::Tensor& i, const at::Tensor& h, const OptionalTensor& bi, const OptionalTensor& bh)
      : input(i.contiguous()), hidden(h.contiguous()), input_bias(dense(bi)), hidden_bias(dense(bh)) {}
  template <class Params>
  void set(Params& p, TensorArgs& args) const {
    p.input_gates = args.read(input);
    p.hidden_gates = args.read(hidden);
    if (input_bias.defined()) p.input_bias = args.read(input_bias), p.hidden_bias = args.read(hidden_bias);
  }
};

// One invocation for each element of a state [batch, hidden].
template <class Params, class Kernel>
void launch_cell(const char* op, const Kernel& kernel, Params& p, const TensorArgs& args, const at::Tensor& state) {
  p.n = static_cast<uint32_t>(state.numel());
  p.hidden = static_cast<uint32_t>(state.size(1));
  const DType dtype = dtype_of(state, op);
  launch(current(state), kernel(compute_type(dtype)), {.dtype = dtype}, p, args,
         linear_grid(ceil_div(p.n, Params::kLocal)));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                    const at::Tensor& hidden_gates,
                                                                    const at::Tensor& cx,
                                                                    const OptionalTensor& input_bias,
                                                                    const OptionalTensor& hidden_bias) {
  const char* op = "_thnn_fused_lstm_cell";
  check_cell(op, input_gates, hidden_gates, cx, 4);
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias);
  const at::Tensor c = cx.contiguous();
  at::Tensor hy = at::empty(c.sizes(), c.options()), cy = at::empty(c.sizes(), c.options()),
             workspace = at::empty(gates.input.sizes(), gates.input.options());
  if (c.numel() == 0) return {hy, cy, workspace};
  LstmCellParams p{};
  TensorArgs args;
  gates.set(p, args);
  p.cx = args.read(c);
  p.hy = args.write(hy);
  p.cy = args.write(cy);
  p.workspace = args.write(workspace);
  launch_cell(op, [](DType c) { return kernel::lstm_cell(LstmCellDIRECTION::forward, c); }, p, args, c);
  return {hy, cy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> thnn_fused_lstm_cell_backward_impl(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias) {
  const at::Tensor gh = dense(grad_hy), gc = dense(grad_cy), c = cx.contiguous(), y = cy.contiguous(),
                   w = workspace.contiguous();
  if (!gh.defined() && !gc.defined()) return {};
  at::Tensor grad_gates = at::empty(w.sizes(), w.options()), grad_cx = at::empty(c.sizes(), c.options());
  if (c.numel() != 0) {
    LstmCellParams p{};
    TensorArgs args;
    if (gh.defined()) p.hy = args.read(gh);
    if (gc.defined()) p.cy = args.read(gc);
    p.cx = args.read(c);
    p.cy_value = args.read(y);
    p.workspace = args.read(w);
    p.grad_gates = args.write(grad_gates);
    p.grad_cx = args.write(grad_cx);
    launch_cell(
        "_thnn_fused_lstm_cell_backward", [](DType c) { return kernel::lstm_cell(LstmCellDIRECTION::backward, c); }, p,
        args, c);
  }
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                       const at::Tensor& hx, const OptionalTensor& input_bias,
                                                       const OptionalTensor& hidden_bias) {
  const char* op = "_thnn_fused_gru_cell";
  check_cell(op, input_gates, hidden_gates, hx, 3);
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias);
  const at::Tensor x = hx.contiguous();
  at::Tensor hy = at::empty(x.sizes(), x.options()), workspace = at::empty({x.size(0), 5 * x.size(1)}, x.options());
  if (x.numel() == 0) return {hy, workspace};
  GruCellParams p{};
  TensorArgs args;
  gates.set(p, args);
  p.hx = args.read(x);
  p.hy = args.write(hy);
  p.workspace = args.write(workspace);
  launch_cell(op, [](DType c) { return kernel::gru_cell(GruCellDIRECTION::forward, c); }, p, args, x);
  return {hy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const at::Tensor g = grad_hy.contiguous(), w = workspace.contiguous();
  const int64_t batch = g.size(0), hidden = g.size(1);
  at::Tensor gi = at::empty({batch, 3 * hidden}, g.options()), gh = at::empty({batch, 3 * hidden}, g.options()),
             gx = at::empty(g.sizes(), g.options());
  if (g.numel() != 0) {
    GruCellParams p{};
    TensorArgs args;
    p.hy = args.read(g);
    p.workspace = args.read(w);
    p.input_gates = args.write(gi);
    p.hidden_gates = args.write(gh);
    p.hx = args.write(gx);
    launch_cell(
        "_thnn_fused_gru_cell_backward", [](DType c) { return kernel::gru_cell(GruCellDIRECTION::backward, c); }, p,
        args, g);
  }
  if (!has_bias) return {gi, gh, gx, at::Tensor(), at::Tensor()};
  return {gi, gh, gx, gi.sum(0), gh.sum(0)};
}

}  // namespace aule::ops
