// Sorting along one dimension, and the ops on sorted rows: topk, kthvalue, median, mode.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using TwoResults = std::tuple<at::Tensor&, at::Tensor&>;

TwoResults sort_out(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending,
                    at::Tensor& values, at::Tensor& indices);
TwoResults topk_out(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, at::Tensor& values,
                    at::Tensor& indices);
TwoResults kthvalue_out(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::Tensor& values,
                        at::Tensor& indices);
TwoResults median_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices);
TwoResults nanmedian_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                             at::Tensor& indices);
at::Tensor median(const at::Tensor& self);
at::Tensor nanmedian(const at::Tensor& self);
TwoTensors mode(const at::Tensor& self, int64_t dim, bool keepdim);
TwoResults mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices);

}  // namespace aule::ops
