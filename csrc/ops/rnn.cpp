#include "ops/rnn.h"

#include <ATen/ops/empty.h>

#include "kernels_rnn.gen.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr uint32_t kLocal = 64;

void check_cell(const char* op, const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& state,
                int64_t gates) {
  check_same_device(op, {&input_gates, &hidden_gates, &state});
  TORCH_CHECK_NOT_IMPLEMENTED(
      state.scalar_type() == at::kFloat || state.scalar_type() == at::kHalf || state.scalar_type() == at::kBFloat16, op,
      ": dtype ", state.scalar_type(), " has no kernel on device aule (float32, float16 and bfloat16 have)");
  TORCH_CHECK(state.dim() == 2 && input_gates.dim() == 2 && input_gates.sizes() == hidden_gates.sizes() &&
                  input_gates.size(0) == state.size(0) && input_gates.size(1) == gates * state.size(1),
              op, ": expected gates of shape [batch, ", gates, " * hidden] and a state of shape [batch, hidden], got ",
              input_gates.sizes(), ", ", hidden_gates.sizes(), " and ", state.sizes());
}
// A contiguous bias for the kernel, or an undefined tensor.
at::Tensor dense(const OptionalTensor& t) { return t.has_value() && t->defined() ? t->contiguous() : at::Tensor(); }

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                    const at::Tensor& hidden_gates,
                                                                    const at::Tensor& cx,
                                                                    const OptionalTensor& input_bias,
                                                                    const OptionalTensor& hidden_bias) {
  const char* op = "_thnn_fused_lstm_cell";
  check_cell(op, input_gates, hidden_gates, cx, 4);
  const at::Tensor i = input_gates.contiguous(), h = hidden_gates.contiguous(), c = cx.contiguous(),
                   bi = dense(input_bias), bh = dense(hidden_bias);
  at::Tensor hy = at::empty(c.sizes(), c.options()), cy = at::empty(c.sizes(), c.options()),
             workspace = at::empty(i.sizes(), i.options());
  if (c.numel() == 0) return {hy, cy, workspace};
  LstmCellParams p{};
  TensorArgs args;
  p.input_gates = args.read(i);
  p.hidden_gates = args.read(h);
  if (bi.defined()) p.input_bias = args.read(bi), p.hidden_bias = args.read(bh);
  p.cx = args.read(c);
  p.hy = args.write(hy);
  p.cy = args.write(cy);
  p.workspace = args.write(workspace);
  p.n = static_cast<uint32_t>(c.numel());
  p.hidden = static_cast<uint32_t>(c.size(1));
  launch(current(c), kernel::lstm_cell(LstmCellDIRECTION::forward), {.dtype = dtype_of(c, op)}, p, args,
         linear_grid(ceil_div(p.n, kLocal)));
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
    p.n = static_cast<uint32_t>(c.numel());
    p.hidden = static_cast<uint32_t>(c.size(1));
    launch(current(c), kernel::lstm_cell(LstmCellDIRECTION::backward),
           {.dtype = dtype_of(c, "_thnn_fused_lstm_cell_backward")}, p, args, linear_grid(ceil_div(p.n, kLocal)));
  }
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                       const at::Tensor& hx, const OptionalTensor& input_bias,
                                                       const OptionalTensor& hidden_bias) {
  const char* op = "_thnn_fused_gru_cell";
  check_cell(op, input_gates, hidden_gates, hx, 3);
  const at::Tensor i = input_gates.contiguous(), h = hidden_gates.contiguous(), x = hx.contiguous(),
                   bi = dense(input_bias), bh = dense(hidden_bias);
  at::Tensor hy = at::empty(x.sizes(), x.options()), workspace = at::empty({x.size(0), 5 * x.size(1)}, x.options());
  if (x.numel() == 0) return {hy, workspace};
  GruCellParams p{};
  TensorArgs args;
  p.input_gates = args.read(i);
  p.hidden_gates = args.read(h);
  if (bi.defined()) p.input_bias = args.read(bi), p.hidden_bias = args.read(bh);
  p.hx = args.read(x);
  p.hy = args.write(hy);
  p.workspace = args.write(workspace);
  p.n = static_cast<uint32_t>(x.numel());
  p.hidden = static_cast<uint32_t>(x.size(1));
  launch(current(x), kernel::gru_cell(GruCellDIRECTION::forward), {.dtype = dtype_of(x, op)}, p, args,
         linear_grid(ceil_div(p.n, kLocal)));
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
    p.n = static_cast<uint32_t>(g.numel());
    p.hidden = static_cast<uint32_t>(hidden);
    launch(current(g), kernel::gru_cell(GruCellDIRECTION::backward),
           {.dtype = dtype_of(g, "_thnn_fused_gru_cell_backward")}, p, args, linear_grid(ceil_div(p.n, kLocal)));
  }
  if (!has_bias) return {gi, gh, gx, at::Tensor(), at::Tensor()};
  return {gi, gh, gx, gi.sum(0), gh.sum(0)};
}

}  // namespace aule::ops
