// Distinct slices of a tensor along a dimension.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim, bool sorted,
                                                          bool return_inverse, bool return_counts);
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim,
                                                                      bool return_inverse, bool return_counts);

}  // namespace aule::ops
