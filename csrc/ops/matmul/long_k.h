// Products along more of k than one invocation may walk (loop_limit.h).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// The product as gemm() takes it, in slices of k of which each adds to the sum of those before, in float32 where the
// operands have 16 bits. False, and nothing done, where one launch may walk all of k.
bool gemm_in_slices(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out);

}  // namespace aule::ops
