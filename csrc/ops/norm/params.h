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

// Results of n_out elements, contiguous, of any floating dtype as wide as the statistics' or smaller. Those that are
// undefined are left out.
struct PartSums {
  at::Tensor dw, db;    // the sums
  at::Tensor dw2, db2;  // once more; dw2 times `scale`, if that is defined
  at::Tensor scale;     // of the statistics' type
};
// Adds partial sums [parts, n_out] of the statistics' type (norm_params_sum.comp).
void add_parts(const char* name, const at::Tensor& part_w, const at::Tensor& part_b, const PartSums& sums);
// Like sum_param_grads(), in two launches whatever the results are. Without `rstd` the sums for w lack that factor.
void add_param_sums(const char* name, const ParamSums& sums, const at::Tensor& grad, const at::Tensor& x,
                    const at::Tensor& mean, const at::Tensor& rstd, const PartSums& results);

}  // namespace aule::ops
