#include "ops/norm/batch.h"

#include <ATen/ops/empty.h>

#include "ops/norm/batch_kernels.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct MeanAndInvstd {
  at::Tensor mean, invstd;
};

// Statistics of the batch; the running ones are updated.
MeanAndInvstd batch_statistics(const char* name, const BatchShape& shape, const at::Tensor& x, at::ScalarType type,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                               double eps) {
  const at::Tensor mean = empty_channels(shape, x, type), var = empty_channels(shape, x, type);
  const at::Tensor invstd = empty_channels(shape, x, type);
  batch_moments(name, ReduceOp::var, 0, x, var, mean);
  combine_statistics(name, {.from_variance = true,
                            .mean = mean,
                            .spread = var,
                            .count = shape.count(),
                            .eps = eps,
                            .momentum = momentum,
                            .running_mean = running_mean,
                            .running_var = running_var,
                            .invstd_out = invstd});
  return {mean, invstd};
}

}  // namespace

ThreeTensors native_batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                               double momentum, double eps) {
  constexpr const char* kName = "native_batch_norm";
  const BatchShape s = batch_shape(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = parameter(kName, "a weight", weight, type, s.channels);
  const at::Tensor b = parameter(kName, "a bias", bias, type, s.channels);
  check_same_device(kName, {&input, &w, &b});
  const at::Tensor x = dense_batch(s, input), y = empty_batch(s, input);
  MeanAndInvstd saved, used;
  if (training) {
    saved = used = batch_statistics(kName, s, x, type, running_mean, running_var, momentum, eps);
  } else {
    TORCH_CHECK(is_given(running_mean) && is_given(running_var), kName,
                ": expected running_mean and running_var to be defined in evaluation mode");
    used.mean = statistic(kName, "a running_mean", running_mean, type, s.channels);
    used.invstd = statistic(kName, "a running_var", running_var, type, s.channels).add(eps).rsqrt_();
    saved.mean = at::empty({0}, x.options().dtype(type));
    saved.invstd = at::empty({0}, x.options().dtype(type));
  }
  batch_elements(kName, s,
                 {.mode = BatchMode::forward, .x = x, .mean = used.mean, .invstd = used.invstd, .w = w, .b = b},
                 dense_batch(s, y));
  return {y, saved.mean, saved.invstd};
}

ThreeTensors native_batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                     at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum,
                                     double eps) {
  return ops::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

ThreeTensors native_batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& bias, bool training, double momentum, double eps) {
  return ops::native_batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps) {
  auto [y, mean, invstd] =
      ops::native_batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps);
  return {y, mean, invstd, at::empty({0}, input.options().dtype(at::kByte))};
}

ThreeResults native_batch_norm_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                                   double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                                   at::Tensor& save_invstd) {
  auto [y, mean, invstd] =
      ops::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  hand_over(y, out);
  hand_over(mean, save_mean);
  hand_over(invstd, save_invstd);
  return {out, save_mean, save_invstd};
}

ThreeResults native_batch_norm_legit_out(const at::Tensor& input, const OptionalTensor& weight,
                                         const OptionalTensor& bias, at::Tensor& running_mean, at::Tensor& running_var,
                                         bool training, double momentum, double eps, at::Tensor& out,
                                         at::Tensor& save_mean, at::Tensor& save_invstd) {
  return ops::native_batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out,
                                    save_mean, save_invstd);
}

ThreeResults native_batch_norm_no_stats_out(const at::Tensor& input, const OptionalTensor& weight,
                                            const OptionalTensor& bias, bool training, double momentum, double eps,
                                            at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return ops::native_batch_norm_out(input, weight, bias, {}, {}, training, momentum, eps, out, save_mean, save_invstd);
}

ThreeTensors native_batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                        const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                                        double eps, std::array<bool, 3> mask) {
  constexpr const char* kName = "native_batch_norm_backward";
  const BatchShape s = batch_shape(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = parameter(kName, "a weight", weight, type, s.channels);
  check_same_device(kName, {&grad, &input, &w});
  const at::Tensor x = dense_batch(s, input), g = dense_batch(s, grad);
  const at::Tensor mean = statistic(kName, "a mean", train ? save_mean : running_mean, type, s.channels);
  at::Tensor invstd = statistic(kName, "an invstd", train ? save_invstd : running_var, type, s.channels);
  if (!train) invstd = invstd.add(eps).rsqrt_();
  // The sums are the gradients too, if those have their type.
  const at::ScalarType param = is_given(weight) ? weight->scalar_type() : input.scalar_type();
  const auto sum = [&](bool wanted, at::ScalarType t) { return wanted ? empty_channels(s, x, t) : at::Tensor(); };
  const bool converts = param != type && param != at::kDouble, dx_wants = mask[0] && train;
  PartSums sums;
  sums.dw = sum(dx_wants || (mask[1] && !converts), type);
  sums.db = sum(dx_wants || (mask[2] && !converts), type);
  sums.dw2 = sum(mask[1] && converts, param);
  sums.db2 = sum(mask[2] && converts, param);
  sum_channels(kName, s, g, x, mean, invstd, sums);
  at::Tensor dx;
  if (mask[0]) {
    dx = empty_batch(s, input);
    BatchElements v{.mode = train ? BatchMode::training_grad : BatchMode::evaluation_grad,
                    .x = x,
                    .grad = g,
                    .mean = mean,
                    .invstd = invstd,
                    .w = w};
    if (train) v.sum_g = sums.db, v.sum_gh = sums.dw;
    batch_elements(kName, s, v, dense_batch(s, dx));
  }
  const auto gradient = [&](bool wanted, const at::Tensor& t) { return wanted ? t.to(param) : at::Tensor(); };
  return {dx, gradient(mask[1], converts ? sums.dw2 : sums.dw), gradient(mask[2], converts ? sums.db2 : sums.db)};
}

ThreeTensors batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& save_mean, const OptionalTensor& save_var, bool update,
                                 double eps, std::array<bool, 3> mask, const at::Tensor&) {
  return ops::native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_var, update,
                                         eps, mask);
}

}  // namespace aule::ops
