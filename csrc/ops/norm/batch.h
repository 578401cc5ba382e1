// Batch norm: statistics per channel over samples and positions, under the names that PyTorch versions call.
#pragma once
#include "ops/norm/norm.h"

namespace aule::ops {

ThreeTensors native_batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                               double momentum, double eps);
ThreeTensors native_batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                     at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum,
                                     double eps);
ThreeTensors native_batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& bias, bool training, double momentum, double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps);
using ThreeResults = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;
ThreeResults native_batch_norm_legit_out(const at::Tensor& input, const OptionalTensor& weight,
                                         const OptionalTensor& bias, at::Tensor& running_mean, at::Tensor& running_var,
                                         bool training, double momentum, double eps, at::Tensor& out,
                                         at::Tensor& save_mean, at::Tensor& save_invstd);
ThreeResults native_batch_norm_no_stats_out(const at::Tensor& input, const OptionalTensor& weight,
                                            const OptionalTensor& bias, bool training, double momentum, double eps,
                                            at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd);
ThreeResults native_batch_norm_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                                   double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                                   at::Tensor& save_invstd);
ThreeTensors native_batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                        const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                                        double eps, std::array<bool, 3> mask);
ThreeTensors batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& save_mean, const OptionalTensor& save_var, bool update,
                                 double eps, std::array<bool, 3> mask, const at::Tensor& reserve);

}  // namespace aule::ops
