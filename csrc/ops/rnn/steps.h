// Parts that forward and backward of a recurrent layer share: the places of each step's rows, and its launches.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels_rnn.gen.h"
#include "ops/matmul/step_products.h"
#include "ops/rnn/layer.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// For each direction.
using PerDirection = std::array<uint32_t, 2>;
inline uint32_t most(const PerDirection& x) { return std::max(x[0], x[1]); }

// The place of one step: rows first_row to first_row + running of all rows.
struct StepPlace {
  PerDirection first_row{}, running{};
};

class Steps {
 public:
  explicit Steps(const RecurrentLayer& layer);
  int64_t count() const { return static_cast<int64_t>(running_.size()); }
  StepPlace operator[](int64_t step) const;

 private:
  int64_t directions_;
  std::vector<uint32_t> running_, first_row_;  // by time
};

// [directions, ...] of the weights' member; without a copy where there is one direction.
at::Tensor of_directions(const RecurrentLayer& layer, at::Tensor RecurrentWeights::* member);

// Rows of a tensor by place in time and direction: undefined or strides in elements.
struct TimeRows {
  at::Tensor of;
  int64_t row = 0, direction = 0;
};

// recurrent_carry.comp
struct Carry {
  at::Tensor state, now;  // undefined: none
  TimeRows more, out;
};
void launch_carry(const char* op, const RecurrentLayer& layer, const StepProducts& products, uint32_t sums_rows,
                  const PerDirection& summed, const StepPlace& place, const Carry& carry);

template <class Params>
void set_place(Params& p, const StepPlace& place) {
  for (size_t d = 0; d < 2; ++d) {
    p.first_row[d] = place.first_row[d];
    p.running[d] = place.running[d];
  }
}

// One invocation for each element of `rows` states in every direction.
inline Grid step_grid(int64_t directions, uint32_t rows, int64_t size) {
  constexpr uint64_t kLocal = RecurrentForwardParams::kLocal;  // as of the other kernels of steps
  static_assert(kLocal == RecurrentBackwardParams::kLocal && kLocal == RecurrentCarryParams::kLocal);
  return linear_grid(ceil_div(static_cast<uint64_t>(directions) * rows * static_cast<uint64_t>(size), kLocal));
}

}  // namespace aule::ops
