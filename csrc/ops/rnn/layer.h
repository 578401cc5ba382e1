// One layer of nn.RNN, nn.GRU and nn.LSTM over all its steps, in one or both directions, and its gradients. For each
// step a product of the state and one kernel; everything that does not wait for the state is one product of all steps.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/rnn/plan.h"

namespace aule::ops {

// Weights of one direction; undefined: none.
struct RecurrentWeights {
  at::Tensor input, hidden, input_bias, hidden_bias, projection;
};

struct RecurrentLayer {
  Cell cell = Cell::tanh;
  at::Tensor x;                           // [rows, features]: the sequences of each time, one time after the other
  at::Tensor h, c;                        // [directions, batch, state], [directions, batch, hidden]; c of an LSTM
  std::vector<RecurrentWeights> weights;  // one or two
  std::vector<int64_t> batch_sizes;       // of each time, the largest first

  int64_t directions() const { return static_cast<int64_t>(weights.size()); }
  int64_t rows() const { return x.size(0); }
  int64_t batch() const { return h.size(1); }
  int64_t state() const { return h.size(2); }
  int64_t hidden() const { return weights[0].input.size(0) / gates_of(cell); }
  bool is_projected() const { return weights[0].projection.defined(); }
};

// Tensors that the backward reads beside the inputs: see shaders/rnn/recurrent_forward.comp.
struct RecurrentKept {
  at::Tensor gates, inner, before;
  at::Tensor hidden;  // before the projection
};

struct RecurrentResult {
  at::Tensor out, h, c;  // [rows, directions * state]; the last states
  RecurrentKept kept;
};

struct RecurrentGradients {
  at::Tensor x, h, c;
  std::vector<RecurrentWeights> weights;
};
// The gradients to compute; of the weights those of all directions.
struct RecurrentNeeds {
  bool x = true, h = true, c = true, input = true, hidden = true, input_bias = true, hidden_bias = true,
       projection = true;
};

// Whether the kernels serve these dtypes and shapes, for an x of `features` features.
bool recurrent_layer_serves(const RecurrentLayer& layer, int64_t features);
RecurrentResult recurrent_layer(const RecurrentLayer& layer, bool keeps);
// Gradients of the results may be undefined: zeros.
RecurrentGradients recurrent_layer_backward(const RecurrentLayer& layer, const RecurrentKept& kept,
                                            const at::Tensor& grad_out, const at::Tensor& grad_h,
                                            const at::Tensor& grad_c, const RecurrentNeeds& needs);

}  // namespace aule::ops
