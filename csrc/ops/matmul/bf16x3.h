// float32 products on matrix units that take 16-bit operands: what torch.set_float32_matmul_precision("high" |
// "medium") asks for.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/plan.h"

namespace aule::ops {

// Computes `g` from bfloat16 pieces of a and b if less than float32's precision was asked for, the device multiplies
// bfloat16 matrices and the product is large enough to gain, else returns false. "high": three products of two pieces
// each, about 16 bits; "medium": one product of bfloat16. An infinite operand may give NaN under "high". `c` is the
// matrix to add where g.has_c.
bool gemm_of_pieces(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& a,
                    const at::Tensor& b, const at::Tensor& c, const at::Tensor& out);

}  // namespace aule::ops
