// Searching in sorted data, sets, and true elements: searchsorted, isin, unique, nonzero, histc.
// If the result's size depends on the data, the op waits for it.
#pragma once
#include <string_view>

#include "ops/sort/sort.h"

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor searchsorted(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right,
                        std::optional<std::string_view> side, const OptionalTensor& sorter);
at::Tensor& searchsorted_out(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right,
                             std::optional<std::string_view> side, const OptionalTensor& sorter, at::Tensor& out);
at::Tensor searchsorted_scalar(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right,
                               std::optional<std::string_view> side, const OptionalTensor& sorter);
at::Tensor bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right);
at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                          at::Tensor& out);
at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right);

at::Tensor& isin_out(const at::Tensor& elements, const at::Tensor& tests, bool assume_unique, bool invert,
                     at::Tensor& out);
at::Tensor& isin_tensor_scalar_out(const at::Tensor& elements, const at::Scalar& test, bool assume_unique, bool invert,
                                   at::Tensor& out);
at::Tensor& isin_scalar_tensor_out(const at::Scalar& element, const at::Tensor& tests, bool assume_unique, bool invert,
                                   at::Tensor& out);

TwoTensors unique(const at::Tensor& self, bool sorted, bool return_inverse);
ThreeTensors unique2(const at::Tensor& self, bool sorted, bool return_inverse, bool return_counts);
ThreeTensors unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                                std::optional<int64_t> dim);

at::Tensor nonzero(const at::Tensor& self);
at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out);
at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value);

at::Tensor& searchsorted_scalar_out(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right,
                                    std::optional<std::string_view> side, const OptionalTensor& sorter,
                                    at::Tensor& out);
at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);
at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out);

}  // namespace aule::ops
