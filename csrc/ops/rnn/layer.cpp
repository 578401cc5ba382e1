#include "ops/rnn/layer.h"

#include <ATen/ops/empty.h>

#include <optional>

#include "ops/matmul/matmul.h"
#include "ops/rnn/resident.h"
#include "ops/rnn/steps.h"
#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

constexpr const char* kForward = "recurrent layer";

bool has_sizes(const at::Tensor& t, at::IntArrayRef sizes) { return t.defined() && t.sizes() == sizes; }

// input_gates of all rows: x @ w_ih^T + b_ih.
at::Tensor input_gates(const RecurrentLayer& layer) {
  const int64_t wide = gates_of(layer.cell) * layer.hidden(), rows = layer.rows();
  at::Tensor gates = at::empty({layer.directions(), rows, wide}, layer.x.options());
  for (int64_t d = 0; d < layer.directions(); ++d) {
    const RecurrentWeights& w = layer.weights[static_cast<size_t>(d)];
    const at::Tensor bias = w.input_bias.defined() ? w.input_bias.expand({1, rows, wide}) : at::Tensor();
    gemm(kForward, layer.x.unsqueeze(0), w.input.t().unsqueeze(0), bias, 1, 1, gates.narrow(0, d, 1));
  }
  return gates;
}

// Operands and results of a forward step, set once; each step says where.
class ForwardStep {
 public:
  ForwardStep(const RecurrentLayer& layer, const RecurrentResult& result, const at::Tensor& c, const at::Tensor& h_out,
              const TimeRows& out, bool keeps)
      : layer_(layer), kept_(result.kept), h_(result.h), c_(c), h_out_(h_out), out_(out), keeps_(keeps) {
    if (layer.weights[0].hidden_bias.defined())
      bias_ = of_directions(layer, &RecurrentWeights::hidden_bias).contiguous();
  }

  void launch(const StepProducts& products, const StepPlace& place) const {
    RecurrentForwardParams p{};
    TensorArgs args;
    p.sums = args.read(products.sums());
    p.gates = keeps_ ? args.read_write(kept_.gates) : args.read(kept_.gates);
    if (bias_.defined()) p.bias = args.read(bias_);
    p.h = args.read_write(h_);
    p.h_out = h_out_.is_same(h_) ? p.h : args.write(h_out_);
    if (c_.defined()) p.c = args.read_write(c_);
    if (out_.of.defined()) p.out_ = args.write(out_.of);
    if (keeps_ && kept_.inner.defined()) p.inner = args.write(kept_.inner);
    if (keeps_) p.before = args.write(kept_.before);
    p.out_row = out_.row;
    p.out_direction = out_.direction;
    p.rows = static_cast<uint64_t>(layer_.rows());
    set_place(p, place);
    p.directions = static_cast<uint32_t>(layer_.directions());
    p.batch = static_cast<uint32_t>(layer_.batch());
    p.hidden = static_cast<uint32_t>(layer_.hidden());
    p.state = static_cast<uint32_t>(layer_.state());
    p.sums_rows = most(place.running);
    aule::launch(current(layer_.x), kernel::recurrent_forward(compute_type(dtype_of(layer_.x, kForward))),
                 {.dtype = dtype_of(layer_.x, kForward),
                  .sums_dtype = products.dtype(),
                  .cell = static_cast<int>(layer_.cell),
                  .splits = static_cast<int>(products.splits()),
                  .has_bias = bias_.defined(),
                  .keeps = keeps_,
                  .has_out = out_.of.defined()},
                 p, args, step_grid(layer_.directions(), p.sums_rows, layer_.hidden()));
  }

 private:
  const RecurrentLayer& layer_;
  const RecurrentKept& kept_;
  at::Tensor h_, c_, h_out_, bias_;
  TimeRows out_;
  bool keeps_;
};

// A product and a kernel for each step; two more with a projection.
void run_steps(const RecurrentLayer& layer, RecurrentResult& result, const at::Tensor& c, const TimeRows& out,
               bool keeps) {
  const int64_t directions = layer.directions(), rows = layer.rows(), batch = layer.batch(), hidden = layer.hidden(),
                state = layer.state();
  const auto options = layer.x.options();
  RecurrentKept& kept = result.kept;
  at::Tensor h_out = result.h;
  TimeRows before_projection = out;
  std::optional<StepProducts> projection;
  if (layer.is_projected()) {
    h_out = at::empty({directions, batch, hidden}, options);
    if (keeps) kept.hidden = at::empty({directions, rows, hidden}, options);
    before_projection = {kept.hidden, hidden, rows * hidden};
    projection.emplace(kForward, of_directions(layer, &RecurrentWeights::projection).transpose(1, 2));
  }
  StepProducts products(kForward, of_directions(layer, &RecurrentWeights::hidden).transpose(1, 2));
  const ForwardStep forward(layer, result, c, h_out, before_projection, keeps);
  const Steps steps(layer);
  for (int64_t step = 0; step < steps.count(); ++step) {
    const StepPlace place = steps[step];
    const uint32_t running = most(place.running);
    products.multiply({result.h, 0, batch * state, state}, running);
    forward.launch(products, place);
    if (!projection) continue;
    projection->multiply({h_out, 0, batch * hidden, hidden}, running);
    launch_carry(kForward, layer, *projection, running, place.running, place, {{}, result.h, {}, out});
  }
}

}  // namespace

bool recurrent_layer_serves(const RecurrentLayer& layer, int64_t features) {
  const auto type = layer.x.scalar_type();
  if (!layer.x.is_floating_point() || !has_dtype(type)) return false;
  if (type == at::kDouble && !caps_of(layer.x).float64) return false;
  if (layer.x.dim() != 2 || layer.h.dim() != 3 || layer.weights.empty() || layer.weights.size() > 2) return false;
  const at::Tensor& first = layer.weights[0].input;
  if (!first.defined() || first.dim() != 2 || first.size(0) % gates_of(layer.cell) != 0) return false;
  const int64_t hidden = layer.hidden(), wide = first.size(0), state = layer.state(), batch = layer.batch();
  constexpr int64_t kMost = int64_t{1} << 31;
  if (layer.x.numel() == 0 || hidden == 0 || state == 0 || batch == 0 || layer.batch_sizes.empty()) return false;
  if (layer.rows() >= kMost || 2 * batch * wide >= kMost) return false;  // invocations of a step
  if (!has_sizes(layer.h, {layer.directions(), batch, state})) return false;
  const bool is_lstm = layer.cell == Cell::lstm, projected = layer.is_projected();
  if (is_lstm != layer.c.defined() || (is_lstm && !has_sizes(layer.c, {layer.directions(), batch, hidden})))
    return false;
  if (projected ? !is_lstm || state >= hidden : state != hidden) return false;
  const auto alike = [&](const at::Tensor& t) { return t.scalar_type() == type && t.device() == layer.x.device(); };
  if (!alike(layer.h) || (is_lstm && !alike(layer.c))) return false;
  for (const RecurrentWeights& w : layer.weights) {
    if (!has_sizes(w.input, {wide, features}) || !has_sizes(w.hidden, {wide, state})) return false;
    if (!alike(w.input) || !alike(w.hidden) || w.projection.defined() != projected) return false;
    if (projected && (!has_sizes(w.projection, {state, hidden}) || !alike(w.projection))) return false;
    for (const at::Tensor& bias : {w.input_bias, w.hidden_bias}) {
      if (bias.defined() != layer.weights[0].input_bias.defined()) return false;
      if (bias.defined() && (!has_sizes(bias, {wide}) || !alike(bias))) return false;
    }
  }
  return true;
}

RecurrentResult recurrent_layer(const RecurrentLayer& layer, bool keeps) {
  const int64_t directions = layer.directions(), rows = layer.rows(), hidden = layer.hidden(), state = layer.state();
  const auto options = layer.x.options(), floats = options.dtype(sum_type_of(layer.x));
  constexpr auto kDense = at::MemoryFormat::Contiguous;
  RecurrentResult result;
  result.out = at::empty({rows, directions * state}, options);
  result.h = layer.h.clone(kDense);
  const at::Tensor c =
      layer.c.defined() ? layer.c.to(floats, /*non_blocking=*/false, /*copy=*/true, kDense) : at::Tensor();
  RecurrentKept& kept = result.kept;
  kept.gates = input_gates(layer);
  if (keeps) {
    if (layer.cell == Cell::lstm || layer.cell == Cell::gru) kept.inner = at::empty({directions, rows, hidden}, floats);
    kept.before = at::empty({directions, rows, state}, options);
  }

  const TimeRows out{result.out, directions * state, state};
  if (const auto plan = plan_resident(layer))
    resident_forward(layer, *plan, kept, result.h, c, out, keeps);
  else
    run_steps(layer, result, c, out, keeps);
  if (c.defined()) result.c = c.to(options);
  if (!keeps) kept = {};
  return result;
}

}  // namespace aule::ops
