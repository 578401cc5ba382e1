// Elementwise losses with a reduction, and their backwards.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction);
Tensor& mse_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out);
Tensor mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction);
Tensor& mse_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                              Tensor& grad_input);
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta);
Tensor& smooth_l1_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Tensor& out);
Tensor& smooth_l1_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                    double beta, Tensor& grad_input);
Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta);
Tensor& huber_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Tensor& out);
Tensor& huber_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                double delta, Tensor& grad_input);
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction);
Tensor& binary_cross_entropy_out(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                 int64_t reduction, Tensor& out);
Tensor binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                     const OptionalTensor& weight, int64_t reduction);
Tensor& binary_cross_entropy_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                          const OptionalTensor& weight, int64_t reduction, Tensor& grad_input);

}  // namespace aule::ops
