#include "ops/norm/sync_batch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "ops/norm/batch_kernels.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

void check_sizes(const char* name, const at::Tensor& grad, const at::Tensor& input) {
  TORCH_CHECK(grad.sizes() == input.sizes(), name, ": expected a grad_out of the input's sizes, ", input.sizes(),
              ", but got ", grad.sizes());
}

// Rows of statistics, one of each process.
TwoTensors gather(const char* name, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                  const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum, double eps,
                  const at::Tensor& counts, int64_t count) {
  TORCH_CHECK(mean.dim() == 2 && invstd.sizes() == mean.sizes(), name,
              ": expected mean and invstd of [processes, channels], but got ", mean.sizes(), " and ", invstd.sizes());
  TORCH_CHECK(!counts.defined() || counts.numel() == mean.size(0), name, ": expected counts of ", mean.size(0),
              " elements, but got ", counts.sizes());
  check_same_device(name, {&input, &mean, &invstd, &counts});
  const at::ScalarType type = stat_type(mean);
  BatchStats stats{.mean = mean.to(type).contiguous(),
                   .spread = invstd.to(type).contiguous(),
                   .count = count,
                   .eps = eps,
                   .momentum = momentum,
                   .running_mean = running_mean,
                   .running_var = running_var};
  if (counts.defined()) {
    // float32 and half types as they are. lavapipe 22.3.6 takes an int32 0 in float64 arithmetic for a positive number.
    const bool loads = counts.is_floating_point() && counts.scalar_type() != at::kDouble;
    stats.counts = (loads ? counts : counts.to(type)).contiguous();
  }
  stats.mean_out = at::empty({mean.size(1)}, stats.mean.options());
  stats.invstd_out = at::empty({mean.size(1)}, stats.mean.options());
  combine_statistics(name, stats);
  return {stats.mean_out, stats.invstd_out};
}

}  // namespace

TwoTensors batch_norm_stats(const at::Tensor& input, double eps) {
  constexpr const char* kName = "batch_norm_stats";
  const BatchShape s = batch_shape(kName, input);
  check_same_device(kName, {&input});
  const at::ScalarType type = stat_type(input);
  const at::Tensor x = dense_batch(s, input);
  const at::Tensor mean = empty_channels(s, input, type), invstd = empty_channels(s, input, type);
  if (type == at::kFloat) {
    batch_moments(kName, ReduceOp::invstd, eps, x, invstd, mean);
    return {mean, invstd};
  }
  const at::Tensor var = empty_channels(s, input, type);  // a reduction's argument is float32, too coarse an eps
  batch_moments(kName, ReduceOp::var, 0, x, var, mean);
  combine_statistics(
      kName,
      {.from_variance = true, .mean = mean, .spread = var, .count = s.count(), .eps = eps, .invstd_out = invstd});
  return {mean, invstd};
}

TwoTensors batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var, double momentum) {
  constexpr const char* kName = "batch_norm_update_stats";
  const BatchShape s = batch_shape(kName, input);
  const bool has_mean = is_given(running_mean);
  TORCH_CHECK(has_mean == is_given(running_var), kName, ": expected running_mean and running_var, or neither");
  const at::Tensor mean = empty_channels(s, input, stat_type(input)), var = at::empty_like(mean);
  batch_moments(kName, ReduceOp::var, 0, dense_batch(s, input), var, mean);
  if (has_mean) {
    combine_statistics(kName, {.from_variance = true,
                               .mean = mean,
                               .spread = var,
                               .count = s.count(),
                               .momentum = momentum,
                               .running_mean = running_mean,
                               .running_var = running_var});
  }
  return {mean, var};
}

TwoTensors batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                   double momentum, double eps, int64_t count) {
  return gather("batch_norm_gather_stats", input, mean, invstd, running_mean, running_var, momentum, eps, {}, count);
}

TwoTensors batch_norm_gather_stats_with_counts(const at::Tensor& input, const at::Tensor& mean,
                                               const at::Tensor& invstd, const OptionalTensor& running_mean,
                                               const OptionalTensor& running_var, double momentum, double eps,
                                               const at::Tensor& counts) {
  return gather("batch_norm_gather_stats_with_counts", input, mean, invstd, running_mean, running_var, momentum, eps,
                counts, 0);
}

at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double /*eps*/) {
  constexpr const char* kName = "batch_norm_elemt";
  const BatchShape s = batch_shape(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = parameter(kName, "a weight", weight, type, s.channels);
  const at::Tensor b = parameter(kName, "a bias", bias, type, s.channels);
  check_same_device(kName, {&input, &w, &b, &mean, &invstd});
  const at::Tensor y = empty_batch(s, input);
  batch_elements(kName, s,
                 {.mode = BatchMode::forward,
                  .x = dense_batch(s, input),
                  .mean = statistic(kName, "a mean", mean, type, s.channels),
                  .invstd = statistic(kName, "an invstd", invstd, type, s.channels),
                  .w = w,
                  .b = b},
                 dense_batch(s, y));
  return y;
}

at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out) {
  return hand_over(ops::batch_norm_elemt(input, weight, bias, mean, invstd, eps), out);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  constexpr const char* kName = "batch_norm_backward_reduce";
  const BatchShape s = batch_shape(kName, input);
  check_same_device(kName, {&grad, &input, &mean, &invstd});
  check_sizes(kName, grad, input);
  const at::ScalarType type = stat_type(input);
  const at::ScalarType param = is_given(weight) ? weight->scalar_type() : type;
  const at::ScalarType stored = param == at::kDouble ? type : param;
  PartSums sums;
  if (input_g) {
    sums.dw = empty_channels(s, input, type);
    sums.db = empty_channels(s, input, type);
  }
  if (weight_g) {
    sums.dw2 = empty_channels(s, input, stored);
    sums.scale = statistic(kName, "an invstd", invstd, type, s.channels);
  }
  if (bias_g) sums.db2 = empty_channels(s, input, stored);
  sum_channels(kName, s, dense_batch(s, grad), dense_batch(s, input),
               statistic(kName, "a mean", mean, type, s.channels), {}, sums);
  const auto gradient = [&](const at::Tensor& t) { return t.defined() ? t.to(param) : t; };
  return {sums.db, sums.dw, gradient(sums.dw2), gradient(sums.db2)};
}

at::Tensor batch_norm_backward_elemt(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  constexpr const char* kName = "batch_norm_backward_elemt";
  constexpr int64_t kMostCounts = 32;  // that every invocation adds
  const BatchShape s = batch_shape(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = parameter(kName, "a weight", weight, type, s.channels);
  check_same_device(kName, {&grad, &input, &mean, &invstd, &w, &sum_dy, &sum_dy_xmu, &count});
  check_sizes(kName, grad, input);
  const at::Tensor counts = count.numel() <= kMostCounts ? count : count.sum();
  const at::Tensor dx = empty_batch(s, input);
  batch_elements(kName, s,
                 {.mode = BatchMode::synchronized_grad,
                  .x = dense_batch(s, input),
                  .grad = dense_batch(s, grad),
                  .mean = statistic(kName, "a mean", mean, type, s.channels),
                  .invstd = statistic(kName, "an invstd", invstd, type, s.channels),
                  .w = w,
                  .sum_g = statistic(kName, "a sum_dy", sum_dy, type, s.channels),
                  .sum_gh = statistic(kName, "a sum_dy_xmu", sum_dy_xmu, type, s.channels),
                  .counts = counts.to(at::kInt).contiguous()},
                 dense_batch(s, dx));
  return dx;
}

}  // namespace aule::ops
