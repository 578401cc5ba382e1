#include "ops/embedding_bag.h"

#include <ATen/ops/clamp_min.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "kernels_indexing.gen.h"
#include "ops/device_assert.h"
#include "ops/embedding.h"
#include "ops/indexing_common.h"

namespace aule::ops {
namespace {
constexpr int64_t kMean = 1, kMax = 2;

// The gradient of every entry: its bag's row, nothing where it has no bag.
at::Tensor entry_gradients(const at::Tensor& grad, const at::Tensor& offset2bag) {
  return at::index_select(grad, 0, at::clamp_min(offset2bag, 0)).masked_fill(offset2bag.lt(0).unsqueeze(1), 0);
}
}  // namespace

BagResult embedding_bag(const at::Tensor& weight, const at::Tensor& indices_arg, const at::Tensor& offsets_arg,
                        bool /*scale_grad_by_freq*/, int64_t mode, bool sparse,
                        const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset,
                        int64_t padding_idx) {
  const char* op = "embedding_bag";
  check_same_device(op, {&weight, &indices_arg, &offsets_arg});
  check_index_dtype(op, indices_arg);
  check_index_dtype(op, offsets_arg);
  TORCH_CHECK(weight.dim() == 2 && indices_arg.dim() == 1 && offsets_arg.dim() == 1, op,
              ": expected a 2-D weight, 1-D indices and 1-D offsets");
  TORCH_CHECK(!sparse, op, ": sparse gradients are not supported on aule");
  const bool scaled = per_sample_weights.has_value() && per_sample_weights->defined();
  TORCH_CHECK(!scaled || (mode == 0 && per_sample_weights->scalar_type() == weight.scalar_type() &&
                          per_sample_weights->sizes() == indices_arg.sizes()),
              op, ": per_sample_weights need mode 'sum', the weight's dtype and the indices' shape");
  const auto index_type = c10::promoteTypes(indices_arg.scalar_type(), offsets_arg.scalar_type());
  const at::Tensor indices = indices_arg.to(index_type).contiguous(), offsets = offsets_arg.to(index_type).contiguous();
  int64_t bags = offsets.numel();
  if (include_last_offset) {
    TORCH_CHECK(bags >= 1, op, ": include_last_offset: number of offsets should be at least 1");
    --bags;
  }
  if (padding_idx < 0 && padding_idx >= -weight.size(0) && padding_idx != -1) padding_idx += weight.size(0);
  const auto index_options = indices.options();
  at::Tensor output = at::zeros({bags, weight.size(1)}, weight.options());
  // Entries past the last offset belong to no bag.
  at::Tensor bag_of = at::full({indices.numel()}, -1, index_options), bag_size = at::zeros({bags}, index_options);
  at::Tensor max_index = mode == kMax ? at::zeros({bags, weight.size(1)}, index_options) : bag_size;
  if (output.numel() == 0) return {output, bag_of, bag_size, max_index};

  const DType dtype = dtype_of(weight, op);
  const auto kernel = kernel::embedding_bag(dtype == DType::f64 ? DType::f64 : DType::f32);
  TORCH_CHECK_NOT_IMPLEMENTED(supported_row(weight.device().index(), kernel.row), op,
                              ": this device has no float64 arithmetic");
  const at::Tensor scale = scaled ? per_sample_weights->contiguous() : at::Tensor();
  auto& stream = current(weight);
  TensorArgs args;
  EmbeddingBagParams p{};
  p.weight = args.read(weight);
  p.index = args.read(indices);
  p.offsets = args.read(offsets);
  p.scale = scaled ? args.read(scale) : 0;
  p.dst = args.write(output);
  p.bag_of = args.write(bag_of);
  p.bag_size = args.write(bag_size);
  p.max_index = mode == kMax ? args.write(max_index) : 0;
  p.error = error_address(stream);
  p.rows = weight.size(0);
  p.row_stride = weight.stride(0);
  p.column_stride = weight.stride(1);
  p.entries = indices.numel();
  p.padding_index = padding_idx;
  p.bags = static_cast<uint32_t>(bags);
  p.width = static_cast<uint32_t>(weight.size(1));
  p.offsets_count = static_cast<uint32_t>(offsets.numel());
  p.tag = error_tag(op);
  launch(stream, kernel, Spec{dtype, dtype_of(indices, op), static_cast<int>(mode), scaled}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(output.numel()), 64)));
  return {output, bag_of, bag_size, max_index};
}

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                        const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                        int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                        const std::optional<at::Tensor>& per_sample_weights, int64_t padding_idx) {
  if (mode == kMax) {
    // Empty bags have no maximum: their -1 becomes row 0 with a gradient of nothing.
    const at::Tensor source = grad.masked_fill(maximum_indices.lt(0), 0);
    return at::zeros({num_weights, grad.size(1)}, grad.options())
        .scatter_add_(0, at::clamp_min(maximum_indices, 0), source);
  }
  at::Tensor source = grad;
  if (mode == kMean) source = source.div(at::clamp_min(bag_size, 1).unsqueeze(1));
  source = entry_gradients(source, offset2bag);
  if (per_sample_weights.has_value() && per_sample_weights->defined())
    source = source.mul(per_sample_weights->unsqueeze(1));
  return ops::embedding_dense_backward(source.to(grad.scalar_type()), indices, num_weights, padding_idx,
                                       scale_grad_by_freq);
}

at::Tensor embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& /*offsets*/,
                                  const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                  const at::Tensor& maximum_indices, int64_t num_weights, bool scale_grad_by_freq,
                                  int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                                  int64_t padding_idx) {
  TORCH_CHECK(!sparse, "embedding_bag: sparse gradients are not supported on aule");
  return embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                      scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

at::Tensor embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                     const at::Tensor& indices, const at::Tensor& /*offsets*/,
                                                     const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == 0, "embedding_bag: per_sample_weights have a gradient in mode 'sum' only");
  const at::Tensor products = entry_gradients(grad, offset2bag).mul(at::index_select(weight, 0, indices));
  const at::Tensor sums = products.sum(1);
  return padding_idx >= 0 ? sums.masked_fill(indices.eq(padding_idx), 0) : sums;
}

}  // namespace aule::ops
