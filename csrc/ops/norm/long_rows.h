// Norms of rows that are too long for the loops of one invocation (loop_limit.h), by reductions and pointwise kernels.
#pragma once
#include <ATen/core/Tensor.h>

#include "core/caps.h"

namespace aule::ops {

// Rows of n elements. `channels` is 0 when parameters are per element of the row; else parameter
// (row % groups) * channels + k / hw belongs to element k.
struct NormRows {
  int64_t rows, n;
  int64_t hw = 1, groups = 1, channels = 0;
  bool is_rms = false;
};

// True if the rowwise kernels, which read a row twice, four elements an iteration, may loop over it.
bool norm_rows_walkable(const Caps& caps, const NormRows& rows);

// The same operands as the kernels norm_fwd and norm_bwd: contiguous, `mean` undefined for RMS norm, `w` and `b`
// optional.
void long_norm_forward(const char* name, const NormRows& rows, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                       const at::Tensor& rstd);
void long_norm_backward(const NormRows& rows, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx);

}  // namespace aule::ops
