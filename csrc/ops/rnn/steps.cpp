#include "ops/rnn/steps.h"

#include <ATen/ops/stack.h>

#include "ops/tensor/floating.h"

namespace aule::ops {

Steps::Steps(const RecurrentLayer& layer) : directions_(layer.directions()) {
  uint32_t row = 0;
  for (const int64_t size : layer.batch_sizes) {
    running_.push_back(static_cast<uint32_t>(size));
    first_row_.push_back(row);
    row += static_cast<uint32_t>(size);
  }
}

StepPlace Steps::operator[](int64_t step) const {
  StepPlace place;
  for (int64_t d = 0; d < directions_; ++d) {
    const auto time = static_cast<size_t>(d == 0 ? step : count() - 1 - step), at = static_cast<size_t>(d);
    place.first_row[at] = first_row_[time];
    place.running[at] = running_[time];
  }
  return place;
}

at::Tensor of_directions(const RecurrentLayer& layer, at::Tensor RecurrentWeights::* member) {
  if (layer.directions() == 1) return (layer.weights[0].*member).unsqueeze(0);
  return at::stack({layer.weights[0].*member, layer.weights[1].*member});
}

void launch_carry(const char* op, const RecurrentLayer& layer, const StepProducts& products, uint32_t sums_rows,
                  const PerDirection& summed, const StepPlace& place, const Carry& carry) {
  RecurrentCarryParams p{};
  TensorArgs args;
  if (products.sums().defined()) p.sums = args.read(products.sums());
  if (carry.state.defined()) p.state = args.read_write(carry.state);
  if (carry.now.defined()) p.now = args.write(carry.now);
  if (carry.more.of.defined()) p.more = args.read(carry.more.of);
  if (carry.out.of.defined()) p.out_ = args.write(carry.out.of);
  p.more_row = carry.more.row;
  p.more_direction = carry.more.direction;
  p.out_row = carry.out.row;
  p.out_direction = carry.out.direction;
  set_place(p, place);
  for (size_t d = 0; d < 2; ++d) p.summed[d] = summed[d];
  p.directions = static_cast<uint32_t>(layer.directions());
  p.batch = static_cast<uint32_t>(layer.batch());
  p.size = static_cast<uint32_t>(layer.state());
  p.visited = std::max(most(place.running), most(summed));
  p.sums_rows = sums_rows;
  launch(current(layer.x), kernel::recurrent_carry(compute_type(dtype_of(layer.x, op))),
         {.dtype = dtype_of(layer.x, op),
          .sums_dtype = products.dtype(),
          .cell = static_cast<int>(layer.cell),
          .splits = static_cast<int>(products.splits()),
          .has_state = carry.state.defined(),
          .has_more = carry.more.of.defined(),
          .has_now = carry.now.defined(),
          .has_out = carry.out.of.defined()},
         p, args, step_grid(layer.directions(), p.visited, layer.state()));
}

}  // namespace aule::ops
