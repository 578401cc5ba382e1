// Cross entropy in one pass over the logits forward and one backward. log_softmax is not written.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

// True if the two ops below serve: GPUs, dense float32, float16 or bfloat16 logits (N, C), class indices (N).
bool cross_entropy_serves(const at::Tensor& self, const at::Tensor& target);

// aule::cross_entropy_fwd -> loss (float32 if `wide`, else of self's dtype), the number of targets that are not
// ignored, and logsumexp of each row.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_fwd(const at::Tensor& self, const at::Tensor& target,
                                                                 int64_t reduction, int64_t ignore_index, bool wide);
// aule::cross_entropy_bwd -> grad_input
at::Tensor cross_entropy_bwd(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                             const at::Tensor& logsumexp, const at::Tensor& total_weight, int64_t reduction,
                             int64_t ignore_index);

}  // namespace aule::ops
