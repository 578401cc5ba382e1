// Products with sparse matrices of layouts COO, CSR and CSC.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// beta * self + alpha * mat1 @ mat2 for a sparse mat1 and dense self and mat2. Waits for nothing.
at::Tensor addmm_sparse(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha);
at::Tensor mm_sparse(const at::Tensor& self, const at::Tensor& mat2);
// beta * self + alpha * mat1 @ mat2 at the places of self, a CSR matrix.
at::Tensor sampled_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha);

// The indices of rows that compressed ones stand for, and back.
at::Tensor& csr_to_coo_out(const at::Tensor& crow_indices, const at::Tensor& col_indices, bool out_int32,
                           bool transpose, at::Tensor& out);
at::Tensor& coo_to_csr_out(const at::Tensor& self, int64_t size, bool out_int32, at::Tensor& out);
// Raises for indices that make no matrix. Waits for the answer.
void validate_compressed_indices(bool is_crow, const at::Tensor& compressed_idx, const at::Tensor& plain_idx,
                                 int64_t cdim, int64_t dim, int64_t nnz);

}  // namespace aule::ops
