#include "ops/sort/histogram.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "ops/sort/search.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

// self as [samples, dimensions]; its last dimension is that of the samples' coordinates.
at::Tensor as_samples(const at::Tensor& self) { return self.reshape({-1, self.size(-1)}); }

void check_inputs(const at::Tensor& self, size_t dimensions, const OptionalWeight& weight) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got ",
              self.dim());
  const int64_t n = self.size(-1);
  TORCH_CHECK(static_cast<int64_t>(dimensions) == n, "torch.histogramdd: expected ", n,
              " sequences of bin edges for a ", n, "-dimensional histogram but got ", dimensions);
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble,
                              "histogramdd: not implemented for ", self.scalar_type(), " on device aule");
  if (!weight.has_value() || !weight->defined()) return;
  TORCH_CHECK(weight->scalar_type() == self.scalar_type(),
              "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
              "dtype, but got input(",
              self.scalar_type(), "), and weight(", weight->scalar_type(), ")");
  TORCH_CHECK(weight->sizes() == self.sizes().slice(0, static_cast<size_t>(self.dim() - 1)),
              "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
              "excluding its innermost dimension, but got input with shape ",
              self.sizes(), " and weight with shape ", weight->sizes());
}

at::Tensor histogram_of(const at::Tensor& self, at::TensorList edges, const OptionalWeight& weight, bool density) {
  check_inputs(self, edges.size(), weight);
  const at::Tensor samples = as_samples(self);
  const int64_t n = samples.size(0);
  std::vector<int64_t> shape;
  int64_t total = 1;
  at::Tensor index, inside;
  for (size_t d = 0; d < edges.size(); ++d) {
    const at::Tensor& e = edges[d];
    TORCH_CHECK(
        e.scalar_type() == self.scalar_type() && e.dim() == 1 && e.numel() > 0,
        "torch.histogramdd: expected bin edges of one dimension, with an element or more, of the input's dtype ",
        self.scalar_type(), ", but got ", e.sizes(), " of ", e.scalar_type());
    const int64_t bins = e.numel() - 1;
    shape.push_back(bins);
    total *= bins;
    if (total == 0) continue;
    const at::Tensor x = samples.select(1, static_cast<int64_t>(d)).contiguous(), last = e.select(0, bins);
    // The last bin is closed: its upper edge is in it.
    const at::Tensor bin = ops::bucketize(x, e.contiguous(), false, true).sub(1).clamp_max(bins - 1);
    const at::Tensor here = x.ge(e.select(0, 0)).logical_and(x.le(last));
    index = index.defined() ? index.mul(bins).add(bin) : bin;
    inside = inside.defined() ? inside.logical_and(here) : here;
  }
  at::Tensor hist;
  if (total == 0 || n == 0) {
    hist = at::zeros(shape, self.options());
  } else {
    // One more bin collects samples out of range. Without weights they are counted as integers: float32 has no 2^24
    // + 1.
    const at::Tensor at_ = at::where(inside, index, at::full({}, total, index.options()));
    const bool weighted = weight.has_value() && weight->defined();
    const auto type = weighted ? self.scalar_type() : n < (int64_t{1} << 31) ? at::kInt : at::kLong;
    const auto options = self.options().dtype(type);
    const at::Tensor values = weighted ? weight->reshape({-1}) : at::ones({}, options).expand({n});
    hist = at::zeros({total + 1}, options).scatter_add_(0, at_, values).narrow(0, 0, total);
    hist = hist.to(self.scalar_type()).reshape(shape);
  }
  if (!density) return hist;
  hist = hist.div(hist.sum());
  for (size_t d = 0; d < edges.size(); ++d) {
    std::vector<int64_t> along(shape.size(), 1);
    along[d] = shape[d];
    const at::Tensor& e = edges[d];
    hist = hist.div(e.narrow(0, 1, shape[d]).sub(e.narrow(0, 0, shape[d])).reshape(along));
  }
  return hist;
}

}  // namespace

std::vector<at::Tensor> histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                              const OptionalWeight& weight, bool) {
  check_inputs(self, bins.size(), weight);
  TORCH_CHECK(!range || range->size() == 2 * bins.size(), "torch.histogramdd: for a ", bins.size(),
              "-dimensional histogram range should have ", 2 * bins.size(), " elements, but got ",
              range ? range->size() : 0);
  const at::Tensor samples = as_samples(self);
  at::Tensor lows, highs;  // read on the host, as the edges' values are arguments of linspace
  if (!range && samples.numel() > 0) {
    std::tie(lows, highs) = at::aminmax(samples, 0);
    lows = lows.to(at::kCPU, at::kDouble);
    highs = highs.to(at::kCPU, at::kDouble);
  }
  std::vector<at::Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    TORCH_CHECK(bins[d] > 0, "torch.histogramdd(): bins must be > 0, but got ", bins[d], " for dimension ", d);
    double low = 0, high = 1;
    if (range) {
      low = (*range)[2 * d], high = (*range)[2 * d + 1];
    } else if (lows.defined()) {
      low = lows.const_data_ptr<double>()[d], high = highs.const_data_ptr<double>()[d];
    }
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogramdd(): dimension ", d, "'s range [", low,
                ", ", high, "] is not finite");
    TORCH_CHECK(low <= high, "torch.histogramdd(): min should not exceed max, but got min ", low, " max ", high,
                " for dimension ", d);
    if (low == high) {
      low -= 0.5;
      high += 0.5;
    }
    edges.push_back(at::linspace(low, high, bins[d] + 1, self.options()));
  }
  return edges;
}
at::Tensor histogramdd_from_bin_cts(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                    const OptionalWeight& weight, bool density) {
  return histogram_of(self, ops::histogramdd_bin_edges(self, bins, range, weight, density), weight, density);
}
at::Tensor histogramdd_from_bin_tensors(const at::Tensor& self, at::TensorList bins, const OptionalWeight& weight,
                                        bool density) {
  return histogram_of(self, bins, weight, density);
}

namespace {

OptionalWeight flat_weight(const OptionalWeight& weight) {
  if (!weight.has_value() || !weight->defined()) return std::nullopt;
  return weight->reshape({-1});
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> histogram_bin_ct(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                    const OptionalWeight& weight, bool density) {
  const at::Tensor samples = self.reshape({-1, 1});
  const OptionalWeight w = flat_weight(weight);
  const std::vector<at::Tensor> edges = ops::histogramdd_bin_edges(samples, {bins}, range, w, density);
  return {histogram_of(samples, edges, w, density), edges[0]};
}
std::tuple<at::Tensor&, at::Tensor&> histogram_bin_ct_out(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                          const OptionalWeight& weight, bool density, at::Tensor& hist,
                                                          at::Tensor& bin_edges) {
  const auto [counts, edges] = ops::histogram_bin_ct(self, bins, range, weight, density);
  return {hand_over(counts, hist), hand_over(edges, bin_edges)};
}
std::tuple<at::Tensor, at::Tensor> histogram_bins_tensor(const at::Tensor& self, const at::Tensor& bins,
                                                         const OptionalWeight& weight, bool density) {
  return {histogram_of(self.reshape({-1, 1}), {bins}, flat_weight(weight), density), bins.clone()};
}
std::tuple<at::Tensor&, at::Tensor&> histogram_bins_tensor_out(const at::Tensor& self, const at::Tensor& bins,
                                                               const OptionalWeight& weight, bool density,
                                                               at::Tensor& hist, at::Tensor& bin_edges) {
  const auto [counts, edges] = ops::histogram_bins_tensor(self, bins, weight, density);
  return {hand_over(counts, hist), hand_over(edges, bin_edges)};
}

}  // namespace aule::ops
