// Gradients of a norm's weight and bias: sums over all elements that share a parameter (norm_bwd_params.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/norm/plan.h"

namespace aule::ops {

// Statistics are saved and sums are kept in this type.
inline at::ScalarType stat_type(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// `grad` and `x` are contiguous, `mean` is undefined for RMS norm. Fills `dw` and `db` (n_out elements, contiguous, any
// floating dtype). Either may be undefined.
void sum_param_grads(const char* name, const ParamSums& sums, const at::Tensor& grad, const at::Tensor& x,
                     const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dw, const at::Tensor& db);

}  // namespace aule::ops
