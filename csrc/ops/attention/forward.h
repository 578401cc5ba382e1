// The forward of a call that is checked.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

// For a query as the caller has it. Returns (out, logsumexp, philox_seed, philox_offset).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_forward(AttentionCall& call,
                                                                             const at::Tensor& query);

}  // namespace aule::ops
