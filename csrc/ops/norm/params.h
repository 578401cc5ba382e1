// Gradients of a norm's weight and bias: sums over all elements that share a parameter (norm_bwd_params.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// The position of element (o, r) of parameter o. The shader's head has the values for layer, group and batch norm.
struct ParamSums {
  int64_t n_out, n_red;
  int64_t inner, hop1, hop;
  int64_t stat_hop, stat_div;
};

// Statistics are saved and sums are kept in this type.
inline at::ScalarType stat_type(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// `grad` and `x` are contiguous, `mean` is undefined for RMS norm. Fills `dw` and `db` (n_out elements, contiguous, any
// floating dtype). Either may be undefined.
void sum_param_grads(const char* name, const ParamSums& sums, const at::Tensor& grad, const at::Tensor& x,
                     const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dw, const at::Tensor& db);

}  // namespace aule::ops
