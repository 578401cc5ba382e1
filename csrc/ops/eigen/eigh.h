// Eigenvalues and eigenvectors of symmetric and Hermitian matrices: the function behind PyTorch's linalg_eigh_stub.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

namespace aule::ops {

// `vectors` has the matrices, column-major, of which one triangle is read, and gets the eigenvectors. Ascending.
void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper, bool compute_v);
std::tuple<at::Tensor&, at::Tensor&> linalg_eigh_out(const at::Tensor& a, std::string_view uplo, bool compute_v,
                                                     at::Tensor& values, at::Tensor& vectors);

}  // namespace aule::ops
