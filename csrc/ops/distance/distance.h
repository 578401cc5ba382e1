// Distances of points by p-norms.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

at::Tensor cdist_forward(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode);
at::Tensor cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                          const at::Tensor& cdist);
at::Tensor pdist_forward(const at::Tensor& self, double p);
at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist);

}  // namespace aule::ops
