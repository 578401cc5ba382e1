// Fused optimizer steps: many tensors per dispatch.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

// decoupled: AdamW.
template <bool decoupled>
void fused_adam_(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                 TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1, double beta2,
                 double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                 const OptionalTensor& found_inf);
template <bool decoupled>
void fused_adam_tensor_lr_(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                           TensorList max_exp_avg_sqs, TensorList state_steps, const Tensor& lr, double beta1,
                           double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                           const OptionalTensor& grad_scale, const OptionalTensor& found_inf);
void fused_sgd_(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay,
                double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                const OptionalTensor& grad_scale, const OptionalTensor& found_inf);
void fused_sgd_tensor_lr_(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay,
                          double momentum, const Tensor& lr, double dampening, bool nesterov, bool maximize,
                          bool is_first_step, const OptionalTensor& grad_scale, const OptionalTensor& found_inf);
void fused_adagrad_(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps, double lr,
                    double lr_decay, double weight_decay, double eps, bool maximize, const OptionalTensor& grad_scale,
                    const OptionalTensor& found_inf);
void fused_adagrad_tensor_lr_(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps,
                              const Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
                              const OptionalTensor& grad_scale, const OptionalTensor& found_inf);

}  // namespace aule::ops
