// Products of complex matrices: as one real product, or by a kernel of their own.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace aule::ops {

// gemm for complex64 and complex128, whose k is not 0. Conjugate bits of every tensor are honoured. `c` is undefined
// where nothing is added; no operand overlaps `out`.
void complex_gemm(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Scalar& beta,
                  const at::Scalar& alpha, const at::Tensor& out);

}  // namespace aule::ops
