// Layer norm's and RMS norm's backward in one pass over the rows (shaders/norm/norm_bwd_persistent.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// Of `dx` (contiguous, like x), `dw` and `db` (n elements), those that are defined are computed. `grad` and `x` are
// contiguous rows of n. `mean` is undefined for RMS norm. Returns false and does nothing for software devices, float64
// and long rows.
bool norm_backward_persistent(const char* name, int64_t rows, int64_t n, const at::Tensor& grad, const at::Tensor& x,
                              const at::Tensor& w, const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx,
                              const at::Tensor& dw, const at::Tensor& db);

}  // namespace aule::ops
