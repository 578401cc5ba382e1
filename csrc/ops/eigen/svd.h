// Singular values and vectors: the function behind PyTorch's svd_stub.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace aule::ops {

// a = u diag(s) vh, descending. `driver` names CUDA's libraries, which PyTorch refuses elsewhere.
void svd(const at::Tensor& a, bool full_matrices, bool compute_uv, const std::optional<std::string_view>& driver,
         const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, const at::Tensor& info);
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_svd_out(const at::Tensor& a, bool full_matrices,
                                                                 bool compute_uv,
                                                                 std::optional<std::string_view> driver, at::Tensor& u,
                                                                 at::Tensor& s, at::Tensor& vh);

}  // namespace aule::ops
