#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "ops/matmul/matmul.h"
#include "ops/rnn/layer.h"
#include "ops/rnn/resident.h"
#include "ops/rnn/steps.h"
#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

constexpr const char* kBackward = "recurrent layer backward";

// Dense, to be written, of the type that sums of `x` have; zeros for none.
at::Tensor accumulator(const at::Tensor& grad, at::IntArrayRef sizes, const at::Tensor& x) {
  const auto floats = x.options().dtype(sum_type_of(x));
  if (!grad.defined()) return at::zeros(sizes, floats);
  return grad.to(floats, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
}

// The steps from the last to the first: gradients of gates and states.
class BackwardSteps {
 public:
  BackwardSteps(const RecurrentLayer& layer, const RecurrentKept& kept, const at::Tensor& grad_out,
                const at::Tensor& grad_h, const at::Tensor& grad_c)
      : layer_(layer), kept_(kept), products_(kBackward, of_directions(layer, &RecurrentWeights::hidden)) {
    const int64_t directions = layer.directions(), batch = layer.batch(), state = layer.state();
    const auto options = layer.x.options();
    if (grad_out.defined()) grad_out_ = {grad_out.contiguous(), directions * state, state};
    grad_h_ = accumulator(grad_h, {directions, batch, state}, layer.x);
    if (layer.cell == Cell::lstm) grad_c_ = accumulator(grad_c, {directions, batch, layer.hidden()}, layer.x);
    gates_ = of_rows();
    hidden_gates_ = layer.cell == Cell::gru ? of_rows() : gates_;
    if (!layer.is_projected()) return;
    projection_.emplace(kBackward, of_directions(layer, &RecurrentWeights::projection));
    state_now_ = at::empty({directions, batch, state}, options);
    states_ = at::empty({directions, layer.rows(), state}, options);
  }

  void run(bool needs_h) {
    if (const auto plan = plan_resident(layer_)) {
      resident_backward(layer_, *plan, kept_, {grad_h_, grad_c_, gates_, hidden_gates_, grad_out_});
      return;
    }
    const Steps steps(layer_);
    const int64_t wide = gates_.size(1), rows = layer_.rows();
    for (int64_t step = steps.count() - 1; step >= 0; --step) {
      const StepPlace place = steps[step];
      const uint32_t running = most(place.running);
      if (projection_) {
        launch_carry(kBackward, layer_, products_, sums_rows_, summed_, place,
                     {grad_h_, state_now_, grad_out_, {states_, layer_.state(), rows * layer_.state()}});
        projection_->multiply({state_now_, 0, layer_.batch() * layer_.state(), layer_.state()}, running);
        launch(*projection_, running, place.running, place, {});
      } else {
        launch(products_, sums_rows_, summed_, place, grad_out_);
      }
      summed_ = place.running;
      sums_rows_ = running;
      if (step == 0 && !needs_h) return;
      const int64_t first = place.first_row[0], second = rows + place.first_row[1];
      products_.multiply({hidden_gates_, first * wide, (second - first) * wide, wide}, running);
    }
    launch_carry(kBackward, layer_, products_, sums_rows_, summed_, {}, {grad_h_, {}, {}, {}});
  }

  // [directions, rows, gates * hidden]
  at::Tensor gates() const { return without_rest(gates_); }
  at::Tensor hidden_gates() const { return without_rest(hidden_gates_); }
  const at::Tensor& states() const { return states_; }  // [directions, rows, state], with a projection
  const at::Tensor& h() const { return grad_h_; }
  const at::Tensor& c() const { return grad_c_; }

 private:
  // A batch more than all rows: where directions have different numbers of rows, the product of the smaller one reads
  // past its end, and nobody the result.
  at::Tensor of_rows() const {
    const int64_t rest = layer_.directions() == 1 ? 0 : layer_.batch();
    return at::empty({layer_.directions() * layer_.rows() + rest, gates_of(layer_.cell) * layer_.hidden()},
                     layer_.x.options());
  }
  at::Tensor without_rest(const at::Tensor& t) const {
    return t.narrow(0, 0, layer_.directions() * layer_.rows()).view({layer_.directions(), layer_.rows(), t.size(1)});
  }

  void launch(const StepProducts& products, uint32_t sums_rows, const PerDirection& summed, const StepPlace& place,
              const TimeRows& grad_out) const {
    RecurrentBackwardParams p{};
    TensorArgs args;
    if (products.sums().defined()) p.sums = args.read(products.sums());
    if (grad_out.of.defined()) p.grad_out = args.read(grad_out.of);
    p.grad_row = grad_out.row;
    p.grad_direction = grad_out.direction;
    p.grad_h = args.read_write(grad_h_);
    if (grad_c_.defined()) p.grad_c = args.read_write(grad_c_);
    p.gates = args.read(kept_.gates);
    if (kept_.inner.defined()) p.inner = args.read(kept_.inner);
    p.before = args.read(kept_.before);
    p.grad_gates = args.write(gates_);
    p.grad_hidden_gates = hidden_gates_.is_same(gates_) ? p.grad_gates : args.write(hidden_gates_);
    p.rows = static_cast<uint64_t>(layer_.rows());
    set_place(p, place);
    for (size_t d = 0; d < 2; ++d) p.summed[d] = summed[d];
    p.directions = static_cast<uint32_t>(layer_.directions());
    p.batch = static_cast<uint32_t>(layer_.batch());
    p.hidden = static_cast<uint32_t>(layer_.hidden());
    p.visited = std::max(most(place.running), most(summed));
    p.sums_rows = sums_rows;
    aule::launch(current(layer_.x), kernel::recurrent_backward(compute_type(dtype_of(layer_.x, kBackward))),
                 {.dtype = dtype_of(layer_.x, kBackward),
                  .sums_dtype = products.dtype(),
                  .cell = static_cast<int>(layer_.cell),
                  .splits = static_cast<int>(products.splits()),
                  .has_grad_out = grad_out.of.defined()},
                 p, args, step_grid(layer_.directions(), p.visited, layer_.hidden()));
  }

  const RecurrentLayer& layer_;
  const RecurrentKept& kept_;
  StepProducts products_;
  std::optional<StepProducts> projection_;
  TimeRows grad_out_;
  at::Tensor grad_h_, grad_c_, gates_, hidden_gates_, state_now_, states_;
  PerDirection summed_{};
  uint32_t sums_rows_ = 0;
};

// a^T @ b for each direction: gradients of weights from those of all rows.
at::Tensor over_rows(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), a.size(2), b.size(2)}, a.options());
  gemm(kBackward, a.transpose(1, 2), b.expand({a.size(0), b.size(1), b.size(2)}), {}, 0, 1, out);
  return out;
}

// The sum of both directions' gradients of x.
at::Tensor gradient_of_x(const RecurrentLayer& layer, const at::Tensor& gates) {
  at::Tensor sum;
  for (int64_t d = 0; d < layer.directions(); ++d) {
    at::Tensor out = at::empty({1, layer.rows(), layer.x.size(1)}, layer.x.options());
    gemm(kBackward, gates.narrow(0, d, 1), layer.weights[static_cast<size_t>(d)].input.unsqueeze(0), sum, 1, 1, out);
    sum = out;
  }
  return sum.squeeze(0);
}

}  // namespace

RecurrentGradients recurrent_layer_backward(const RecurrentLayer& layer, const RecurrentKept& kept,
                                            const at::Tensor& grad_out, const at::Tensor& grad_h,
                                            const at::Tensor& grad_c, const RecurrentNeeds& needs) {
  BackwardSteps steps(layer, kept, grad_out, grad_h, grad_c);
  steps.run(needs.h);
  const at::Tensor gates = steps.gates(), hidden_gates = steps.hidden_gates();
  const auto options = layer.x.options();
  RecurrentGradients grads;
  grads.weights.resize(layer.weights.size());
  const auto share = [&](const at::Tensor& all, at::Tensor RecurrentWeights::* member) {
    for (size_t d = 0; d < grads.weights.size(); ++d) grads.weights[d].*member = all[static_cast<int64_t>(d)];
  };
  if (needs.x) grads.x = gradient_of_x(layer, gates);
  if (needs.h) grads.h = steps.h().to(options);
  if (needs.c && layer.c.defined()) grads.c = steps.c().to(options);
  if (needs.input) share(over_rows(gates, layer.x.unsqueeze(0)), &RecurrentWeights::input);
  if (needs.hidden) share(over_rows(hidden_gates, kept.before), &RecurrentWeights::hidden);
  if (layer.weights[0].input_bias.defined()) {
    const bool one_sum = layer.cell != Cell::gru;  // the gates have one gradient for both sides
    at::Tensor sum;
    if (needs.input_bias || (needs.hidden_bias && one_sum)) sum = at::sum(gates, at::IntArrayRef{1});
    if (needs.input_bias) share(sum, &RecurrentWeights::input_bias);
    if (needs.hidden_bias)
      share(one_sum ? sum : at::sum(hidden_gates, at::IntArrayRef{1}), &RecurrentWeights::hidden_bias);
  }
  if (needs.projection && layer.is_projected())
    share(over_rows(steps.states(), kept.hidden), &RecurrentWeights::projection);
  return grads;
}

}  // namespace aule::ops
