#include "ops/embedding/bag.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/embedding_sparse_backward.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "kernels_embedding.gen.h"
#include "ops/embedding/embedding.h"
#include "ops/indexing/common.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {
constexpr int64_t kMean = 1, kMax = 2;

// For every entry the row of its bag, or 0 if it has no bag.
at::Tensor rows_for_entries(const at::Tensor& grad, const at::Tensor& offset2bag) {
  return at::index_select(grad, 0, at::clamp_min(offset2bag, 0)).masked_fill(offset2bag.lt(0).unsqueeze(1), 0);
}

constexpr const char* kBag = "embedding_bag";

struct Bags {
  at::Tensor weight, indices, offsets, scale;  // the last may be undefined
  int64_t count, mode, padding_idx;
};

BagResult empty_result(const Bags& b) {
  const auto index_options = b.indices.options();
  const at::Tensor output = at::zeros({b.count, b.weight.size(1)}, b.weight.options());
  // Entries past the last offset belong to no bag.
  const at::Tensor bag_of = at::full({b.indices.numel()}, -1, index_options),
                   bag_size = at::zeros({b.count}, index_options);
  return {output, bag_of, bag_size, b.mode == kMax ? at::zeros({b.count, b.weight.size(1)}, index_options) : bag_size};
}

BagResult launch_bags(const Bags& b) {
  const BagResult result = empty_result(b);
  const auto& [output, bag_of, bag_size, max_index] = result;
  const DType dtype = dtype_of(b.weight, kBag);
  const auto kernel = kernel::embedding_bag(compute_type(dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(b.weight.device().index(), kernel.id), kBag,
                              ": this device has no float64 arithmetic");
  auto& stream = current(b.weight);
  TensorArgs args;
  EmbeddingBagParams p{};
  p.weight = args.read(b.weight);
  p.index = args.read(b.indices);
  p.offsets = args.read(b.offsets);
  p.scale = b.scale.defined() ? args.read(b.scale) : 0;
  p.dst = args.write(output);
  p.bag_of = args.write(bag_of);
  p.bag_size = args.write(bag_size);
  p.max_index = b.mode == kMax ? args.write(max_index) : 0;
  p.error = error_address(stream);
  p.rows = b.weight.size(0);
  p.row_stride = b.weight.stride(0);
  p.column_stride = b.weight.stride(1);
  p.entries = b.indices.numel();
  p.padding_index = b.padding_idx;
  p.bags = static_cast<uint32_t>(b.count);
  p.width = static_cast<uint32_t>(b.weight.size(1));
  p.offsets_count = static_cast<uint32_t>(b.offsets.numel());
  p.tag = error_tag(kBag);
  launch(stream, kernel,
         {.dtype = dtype,
          .index_dtype = dtype_of(b.indices, kBag),
          .mode = static_cast<int>(b.mode),
          .scaled = b.scale.defined()},
         p, args, linear_grid(ceil_div(static_cast<uint64_t>(output.numel()), EmbeddingBagParams::kLocal)));
  return result;
}

// Entries of a part of a bag, or nothing where one invocation may have them all. Parts are shorter than the limit,
// because long float32 sums lose precision.
std::optional<int64_t> part_of_bag(const Caps& caps, int64_t entries) {
  if (may_walk(caps, static_cast<uint64_t>(entries))) return {};
  return static_cast<int64_t>(std::min<uint64_t>(longest_walk(caps), 2048));
}

// A bag may have all entries. If these are too many for the loop of one invocation, the host reads the offsets and
// splits long bags into parts. The parts' results are then the entries of bags.
BagResult run_bags(const Bags& b) {
  const Caps& caps = caps_of(b.weight);
  const int64_t entries = b.indices.numel();
  const auto most = part_of_bag(caps, entries);
  if (!most) return launch_bags(b);
  TORCH_CHECK_NOT_IMPLEMENTED(!runtime::is_capturing(b.weight.device().index()), kBag, ": ", entries,
                              " entries cannot be captured in a graph, since this device's driver ends loops after ",
                              caps.max_loop_iterations, " iterations");
  const at::Tensor offsets = b.offsets.to(at::kCPU, at::kLong);
  const auto offset = [&](int64_t i) {
    return i < offsets.numel() ? std::clamp<int64_t>(offsets.const_data_ptr<int64_t>()[i], 0, entries) : entries;
  };
  std::vector<int64_t> starts, firsts, owners;  // of parts; the first part of each bag; the bag of each part
  for (int64_t bag = 0; bag < b.count; ++bag) {
    firsts.push_back(static_cast<int64_t>(starts.size()));
    int64_t at = offset(bag);
    do {
      starts.push_back(at);
      owners.push_back(bag);
      at += *most;
    } while (at < offset(bag + 1));
  }
  const auto parts = static_cast<int64_t>(starts.size());
  if (parts == b.count) return launch_bags(b);
  starts.push_back(offset(b.count));
  const auto index_options = b.indices.options();
  const auto upload = [&](const std::vector<int64_t>& v) { return at::tensor(v).to(index_options); };

  const bool narrow = b.weight.element_size() == 2;
  const auto wide = [&](const at::Tensor& t) { return narrow && t.defined() ? t.to(at::kFloat) : t; };
  const int64_t mode = b.mode == kMax ? kMax : 0;
  const auto [values, part_of, part_size, part_max] =
      launch_bags({wide(b.weight), b.indices, upload(starts), wide(b.scale), parts, mode, b.padding_idx});
  // Parts without a counted entry are padding.
  const at::Tensor rows =
      at::where(part_size.eq(0), at::full({}, parts, index_options), at::arange(parts, index_options));
  const auto [sums, entry_bag, counted, best_part] = run_bags({values, rows, upload(firsts), {}, b.count, mode, parts});
  const at::Tensor owner = upload(owners);
  const at::Tensor bag_of = at::index_select(owner, 0, at::clamp_min(part_of, 0)).masked_fill(part_of.lt(0), -1);
  const at::Tensor bag_size = at::zeros({b.count}, index_options).index_add_(0, owner, part_size);
  at::Tensor output = sums, max_index = bag_size;
  if (b.mode == kMean) output = output.div(at::clamp_min(bag_size, 1).unsqueeze(1));
  if (b.mode == kMax)
    max_index = part_max.gather(0, at::clamp_min(best_part, 0).to(at::kLong)).masked_fill(best_part.lt(0), -1);
  return {output.to(b.weight.scalar_type()), bag_of, bag_size, max_index};
}

// The part of the output's gradient that an entry's row of the weight gets.
at::Tensor entry_gradients(const at::Tensor& grad, const at::Tensor& offset2bag, const at::Tensor& bag_size,
                           int64_t mode, const std::optional<at::Tensor>& per_sample_weights) {
  at::Tensor source = grad;
  if (mode == kMean) source = source.div(at::clamp_min(bag_size, 1).unsqueeze(1));
  source = rows_for_entries(source, offset2bag);
  if (per_sample_weights.has_value() && per_sample_weights->defined())
    source = source.mul(per_sample_weights->unsqueeze(1));
  return source.to(grad.scalar_type());
}
}  // namespace

BagResult embedding_bag(const at::Tensor& weight, const at::Tensor& indices_arg, const at::Tensor& offsets_arg,
                        bool /*scale_grad_by_freq*/, int64_t mode, bool sparse,
                        const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset,
                        int64_t padding_idx) {
  const char* op = kBag;
  check_same_device(op, {&weight, &indices_arg, &offsets_arg});
  check_index_dtype(op, indices_arg);
  check_index_dtype(op, offsets_arg);
  TORCH_CHECK(weight.dim() == 2 && indices_arg.dim() == 1 && offsets_arg.dim() == 1, op,
              ": expected a 2-D weight, 1-D indices and 1-D offsets");
  TORCH_CHECK(!sparse || mode != kMax, op, ": mode 'max' has no sparse gradients");
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
  const at::Tensor scale = scaled ? per_sample_weights->contiguous() : at::Tensor();
  const Bags all{weight, indices, offsets, scale, bags, mode, padding_idx};
  return bags == 0 || weight.size(1) == 0 ? empty_result(all) : run_bags(all);
}

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                        const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                        int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                        const std::optional<at::Tensor>& per_sample_weights, int64_t padding_idx) {
  if (mode == kMax) {
    // Empty bags have no maximum. Their -1 becomes row 0 with a gradient of 0.
    const at::Tensor source = grad.masked_fill(maximum_indices.lt(0), 0);
    return at::zeros({num_weights, grad.size(1)}, grad.options())
        .scatter_add_(0, at::clamp_min(maximum_indices, 0), source);
  }
  return ops::embedding_dense_backward(entry_gradients(grad, offset2bag, bag_size, mode, per_sample_weights), indices,
                                       num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& /*offsets*/,
                                  const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                  const at::Tensor& maximum_indices, int64_t num_weights, bool scale_grad_by_freq,
                                  int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                                  int64_t padding_idx) {
  if (sparse)
    return at::embedding_sparse_backward(entry_gradients(grad, offset2bag, bag_size, mode, per_sample_weights), indices,
                                         num_weights, padding_idx, scale_grad_by_freq);
  return embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                      scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

at::Tensor embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                     const at::Tensor& indices, const at::Tensor& /*offsets*/,
                                                     const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == 0, "embedding_bag: per_sample_weights have a gradient in mode 'sum' only");
  const at::Tensor products = rows_for_entries(grad, offset2bag).mul(at::index_select(weight, 0, indices));
  const at::Tensor sums = products.sum(1);
  return padding_idx >= 0 ? sums.masked_fill(indices.eq(padding_idx), 0) : sums;
}

}  // namespace aule::ops
