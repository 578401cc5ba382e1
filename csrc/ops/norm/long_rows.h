// Norms of rows that are too long for the loops of one invocation (loop_limit.h), by reductions and pointwise kernels.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/norm/plan.h"

namespace aule::ops {

// The same operands as the kernels norm_fwd and norm_bwd: contiguous, `mean` undefined for RMS norm, `w` and `b`
// optional.
void long_norm_forward(const char* name, const NormRows& rows, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                       const at::Tensor& rstd);
void long_norm_backward(const NormRows& rows, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx);

}  // namespace aule::ops
