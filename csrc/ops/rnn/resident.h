// All steps of a recurrent layer by workgroups that keep their sequences (resident_forward.comp,
// resident_backward.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/rnn/layer.h"
#include "ops/rnn/plan.h"
#include "ops/rnn/steps.h"

namespace aule::ops {

// Nothing for projections and packed sequences, which have other kernels.
std::optional<ResidentPlan> plan_resident(const RecurrentLayer& layer);

// The states are replaced: h of the layer's dtype, c float32.
void resident_forward(const RecurrentLayer& layer, const ResidentPlan& plan, const RecurrentKept& kept,
                      const at::Tensor& h, const at::Tensor& c, const TimeRows& out, bool keeps);

// Gradients of the states are replaced, float32.
struct ResidentGradients {
  at::Tensor h, c, gates, hidden_gates;  // hidden_gates: gates itself, but for a GRU
  TimeRows out;
};
void resident_backward(const RecurrentLayer& layer, const ResidentPlan& plan, const RecurrentKept& kept,
                       const ResidentGradients& grads);

}  // namespace aule::ops
