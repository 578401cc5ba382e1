// Sums, means and maxima of bags of embedding rows.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

using BagResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// (output, bag of every entry, size of every bag, row of every maximum)
BagResult embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                        bool scale_grad_by_freq, int64_t mode, bool sparse,
                        const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset,
                        int64_t padding_idx);
at::Tensor embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offsets,
                                  const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                  const at::Tensor& maximum_indices, int64_t num_weights, bool scale_grad_by_freq,
                                  int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                                  int64_t padding_idx);
at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                        const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                        int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                        const std::optional<at::Tensor>& per_sample_weights, int64_t padding_idx);
at::Tensor embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                     const at::Tensor& indices, const at::Tensor& offsets,
                                                     const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx);

}  // namespace aule::ops
