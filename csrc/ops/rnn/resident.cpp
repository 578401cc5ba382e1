#include "ops/rnn/resident.h"

#include <algorithm>

namespace aule::ops {
namespace {

constexpr const char* kResident = "recurrent layer";

template <class Params>
Params resident_params(const RecurrentLayer& layer) {
  Params p{};
  p.rows = static_cast<uint64_t>(layer.rows());
  p.times = static_cast<uint32_t>(layer.batch_sizes.size());
  p.directions = static_cast<uint32_t>(layer.directions());
  p.batch = static_cast<uint32_t>(layer.batch());
  return p;
}

}  // namespace

std::optional<ResidentPlan> plan_resident(const RecurrentLayer& layer) {
  if (layer.x.scalar_type() == at::kDouble || layer.is_projected() || layer.batch_sizes.back() != layer.batch())
    return std::nullopt;
  if (layer.rows() * gates_of(layer.cell) * layer.hidden() >= int64_t{1} << 40) return std::nullopt;
  return resident_plan(profile_of(layer.x), {.dtype = dtype_of(layer.x, kResident),
                                             .cell = layer.cell,
                                             .hidden = static_cast<uint32_t>(layer.hidden()),
                                             .directions = static_cast<uint32_t>(layer.directions()),
                                             .batch = static_cast<uint32_t>(layer.batch())});
}

void resident_forward(const RecurrentLayer& layer, const ResidentPlan& plan, const RecurrentKept& kept,
                      const at::Tensor& h, const at::Tensor& c, const TimeRows& out, bool keeps) {
  auto p = resident_params<ResidentForwardParams>(layer);
  TensorArgs args;
  // [directions, hidden, gates * hidden]: neighbours read neighbours.
  const at::Tensor weights = of_directions(layer, &RecurrentWeights::hidden).transpose(1, 2).contiguous();
  at::Tensor bias;
  p.gates = keeps ? args.read_write(kept.gates) : args.read(kept.gates);
  if (layer.weights[0].hidden_bias.defined()) {
    bias = of_directions(layer, &RecurrentWeights::hidden_bias).contiguous();
    p.bias = args.read(bias);
  }
  p.weights = args.read(weights);
  p.h = args.read_write(h);
  if (c.defined()) p.c = args.read_write(c);
  p.out_ = args.write(out.of);
  if (keeps && kept.inner.defined()) p.inner = args.write(kept.inner);
  if (keeps) p.before = args.write(kept.before);
  p.out_row = out.row;
  p.out_direction = out.direction;
  for (p.first = 0; p.first < p.times; p.first += plan.steps) {
    p.count = std::min(plan.steps, p.times - p.first);
    launch(current(layer.x), kernel::resident_forward(),
           {.dtype = dtype_of(layer.x, kResident),
            .cell = static_cast<int>(layer.cell),
            .rows = plan.rows,
            .hidden = static_cast<uint32_t>(layer.hidden()),
            .has_bias = bias.defined(),
            .keeps = keeps},
           p, args, plan.grid);
  }
}

void resident_backward(const RecurrentLayer& layer, const ResidentPlan& plan, const RecurrentKept& kept,
                       const ResidentGradients& grads) {
  auto p = resident_params<ResidentBackwardParams>(layer);
  TensorArgs args;
  const at::Tensor weights = of_directions(layer, &RecurrentWeights::hidden).contiguous();
  if (grads.out.of.defined()) p.grad_out = args.read(grads.out.of);
  p.grad_row = grads.out.row;
  p.grad_direction = grads.out.direction;
  p.weights = args.read(weights);
  p.grad_h = args.read_write(grads.h);
  if (grads.c.defined()) p.grad_c = args.read_write(grads.c);
  p.gates = args.read(kept.gates);
  if (kept.inner.defined()) p.inner = args.read(kept.inner);
  p.before = args.read(kept.before);
  p.grad_gates = args.write(grads.gates);
  p.grad_hidden_gates = grads.hidden_gates.is_same(grads.gates) ? p.grad_gates : args.write(grads.hidden_gates);
  for (uint32_t end = p.times; end > 0; end = p.first) {
    p.count = std::min(plan.steps, end);
    p.first = end - p.count;
    launch(current(layer.x), kernel::resident_backward(),
           {.dtype = dtype_of(layer.x, kResident),
            .cell = static_cast<int>(layer.cell),
            .rows = plan.rows,
            .hidden = static_cast<uint32_t>(layer.hidden()),
            .has_grad_out = grads.out.of.defined()},
           p, args, plan.grid);
  }
}

}  // namespace aule::ops
