// Products by multiply-adds on devices with real shared memory: few rows at memory speed (gemv_wide.comp,
// gemv_matrix.comp), large tiles (gemm_tiles.comp). What these do not take is gemm_plan's.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// Each computes `g` and returns true, or returns false. `args` holds the problem's ranges.
bool gemm_of_few_rows(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const TensorArgs& args,
                      const at::Tensor& out);
bool gemm_in_large_tiles(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const TensorArgs& args,
                         const at::Tensor& out);

}  // namespace aule::ops
