// int8 matrices to an int32 product (gemm_int8.comp): on matrix units that take them, else by packed dot products.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// Computes `g`, without a matrix to add, if it is int8 to int32 and the device has what that takes, else returns false.
// `args` holds the problem's ranges.
bool gemm_of_int8(const GemmProblem& g, const TensorArgs& args, const at::Tensor& out);

}  // namespace aule::ops
