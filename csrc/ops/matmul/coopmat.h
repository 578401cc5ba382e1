// Products of 16-bit matrices on the matrix units (gemm_matrix.comp): tile, staging of each operand, split of k.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// The device keeps matrices of this dtype as the kernels that fill them element by element expect (gemm_matrix.comp).
bool has_fragments(const at::Tensor& t, DType dtype);

// Computes `g` if the device has matrix units that take it, else returns false. The result has the operands' dtype or
// is float32. `args` holds the problem's ranges.
bool gemm_on_matrices(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const TensorArgs& args,
                      const at::Tensor& out);

}  // namespace aule::ops
