// Layer norm and RMS norm by persistent workgroups, which take many rows (norm_fwd_persistent.comp,
// norm_bwd_persistent.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/norm/plan.h"

namespace aule::ops {

// Contiguous rows. `w` and `b` may be undefined.
void norm_forward_persistent(const NormForwardProblem& problem, const PersistentPlan& plan, const at::Tensor& x,
                             const at::Tensor& w, const at::Tensor& b, double eps, const at::Tensor& y,
                             const at::Tensor& mean, const at::Tensor& rstd);

// Computes those of `dx` (contiguous, like x), `dw` and `db` (n elements) that are defined. `grad` and `x` are
// contiguous. `mean` is undefined for RMS norm.
void norm_backward_persistent(const char* name, const NormBackwardProblem& problem, const PersistentBackwardPlan& plan,
                              const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w, const at::Tensor& mean,
                              const at::Tensor& rstd, const at::Tensor& dx, const at::Tensor& dw, const at::Tensor& db);

}  // namespace aule::ops
