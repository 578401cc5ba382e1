// Matrix products: mm, bmm, addmm, baddbmm, addbmm, addmv, dot, _int_mm.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/problem.h"

namespace aule::ops {

// The epilogue of a product, before it is rounded to out's dtype where its kernel can: the activation, then the
// residual, of out's sizes; undefined: none.
struct GemmEpilogue {
  Activation activation = Activation::none;
  at::Tensor residual;
};

// out = activate(alpha * a @ b + beta * c) + residual for [B, M, K] @ [B, K, N] of any strides and conjugate bits; c
// has out's sizes (expanded, perhaps); undefined or beta 0: not read. `out` has its size already and shares no memory
// with a and b; it has their dtype, or is float32 where they are 16-bit floats, int32 where they are int8. The kernel
// under every op of this family. Complex products have no epilogue.
void gemm(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Scalar& beta,
          const at::Scalar& alpha, const at::Tensor& out, const GemmEpilogue& epilogue = {});

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out);
at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out);
at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out);
at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu, at::Tensor& out);
at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out);
at::Tensor addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha);
at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                    const at::Scalar& alpha);
at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out);
at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out);
at::Tensor dot(const at::Tensor& self, const at::Tensor& tensor);
at::Tensor vdot(const at::Tensor& self, const at::Tensor& other);
at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2);
at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out);

}  // namespace aule::ops
