// Cumulative sums, products, extremes and log-sum-exp along one dimension.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

at::Tensor& cumsum_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor& out);
at::Tensor& cumprod_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor& out);
void cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim);
void cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim);
at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim);
at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out);

}  // namespace aule::ops
