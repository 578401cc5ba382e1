// Ops that rearrange elements: concatenation, triangles, flips, rolls, and the gradient of unfold.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim);
at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out);
at::Tensor chunk_cat(at::TensorList tensors, int64_t dim, int64_t num_chunks);
at::Tensor& chunk_cat_out(at::TensorList tensors, int64_t dim, int64_t num_chunks, at::Tensor& out);
at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out);
at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups);
at::Tensor& tril_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out);
at::Tensor& triu_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out);
at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims);
at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size);
at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t dim, int64_t size,
                           int64_t step);
at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength);

}  // namespace aule::ops
