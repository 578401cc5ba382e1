// Eigenvalues and eigenvectors of symmetric and Hermitian matrices: the function behind PyTorch's linalg_eigh_stub.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// `vectors` has the matrices, column-major, of which one triangle is read, and gets the eigenvectors. Ascending.
void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper, bool compute_v);

}  // namespace aule::ops
