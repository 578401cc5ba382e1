// Histograms of one and of several dimensions over given edges or equal bins. histc: search.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <vector>

namespace aule::ops {

using OptionalRange = std::optional<at::ArrayRef<double>>;
using OptionalWeight = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor> histogram_bin_ct(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                    const OptionalWeight& weight, bool density);
std::tuple<at::Tensor&, at::Tensor&> histogram_bin_ct_out(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                          const OptionalWeight& weight, bool density, at::Tensor& hist,
                                                          at::Tensor& bin_edges);
std::tuple<at::Tensor, at::Tensor> histogram_bins_tensor(const at::Tensor& self, const at::Tensor& bins,
                                                         const OptionalWeight& weight, bool density);
std::tuple<at::Tensor&, at::Tensor&> histogram_bins_tensor_out(const at::Tensor& self, const at::Tensor& bins,
                                                               const OptionalWeight& weight, bool density,
                                                               at::Tensor& hist, at::Tensor& bin_edges);
std::vector<at::Tensor> histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                              const OptionalWeight& weight, bool density);
at::Tensor histogramdd_from_bin_cts(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                    const OptionalWeight& weight, bool density);
at::Tensor histogramdd_from_bin_tensors(const at::Tensor& self, at::TensorList bins, const OptionalWeight& weight,
                                        bool density);

}  // namespace aule::ops
