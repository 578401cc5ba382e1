// Batch norm in steps, between which processes exchange statistics: the operators of torch.nn.SyncBatchNorm.
#pragma once
#include "ops/norm/norm.h"

namespace aule::ops {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

TwoTensors batch_norm_stats(const at::Tensor& input, double eps);
TwoTensors batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var, double momentum);
TwoTensors batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                   double momentum, double eps, int64_t count);
TwoTensors batch_norm_gather_stats_with_counts(const at::Tensor& input, const at::Tensor& mean,
                                               const at::Tensor& invstd, const OptionalTensor& running_mean,
                                               const OptionalTensor& running_var, double momentum, double eps,
                                               const at::Tensor& counts);
at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double eps);
at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g);
at::Tensor batch_norm_backward_elemt(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count);

}  // namespace aule::ops
