#include "ops/pointwise/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include "ops/pointwise/pointwise.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

Tensor reduce(const Tensor& losses, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return at::mean(losses);
  return reduction == at::Reduction::Sum ? at::sum(losses) : losses;
}

Tensor loss(const Entry& entry, const Tensor& self, const Tensor& target, int64_t reduction,
            const Scalars& scalars = {}) {
  Tensor losses;
  return reduce(binary(entry, Rule::same, losses, self, target, scalars), reduction);
}

Tensor& assign(Tensor& out, const Tensor& value) { return hand_over(value, out); }

// 1 / n for the mean, times `factor`.
double scale(const Tensor& self, int64_t reduction, double factor = 1.0) {
  return reduction == at::Reduction::Mean ? factor / static_cast<double>(self.numel()) : factor;
}

}  // namespace

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  return loss(binary_entry::mse_loss, self, target, reduction);
}
Tensor& mse_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return assign(out, ops::mse_loss(self, target, reduction));
}
Tensor& mse_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                              Tensor& grad_input) {
  return ternary(ternary_entry::mse_loss_backward, grad_input, grad, self, target, {scale(self, reduction, 2.0)});
}
Tensor mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  Tensor grad_input;
  return ops::mse_loss_backward_out(grad, self, target, reduction, grad_input);
}

Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss: expected beta to be at least 0, but got ", beta);
  return loss(binary_entry::smooth_l1_loss, self, target, reduction, {beta});
}
Tensor& smooth_l1_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Tensor& out) {
  return assign(out, ops::smooth_l1_loss(self, target, reduction, beta));
}
Tensor& smooth_l1_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                    double beta, Tensor& grad_input) {
  return ternary(ternary_entry::smooth_l1_loss_backward, grad_input, grad, self, target,
                 {scale(self, reduction), beta});
}

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss: expected delta above 0, but got ", delta);
  return loss(binary_entry::huber_loss, self, target, reduction, {delta});
}
Tensor& huber_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Tensor& out) {
  return assign(out, ops::huber_loss(self, target, reduction, delta));
}
Tensor& huber_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                double delta, Tensor& grad_input) {
  return ternary(ternary_entry::huber_loss_backward, grad_input, grad, self, target, {scale(self, reduction), delta});
}

Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction) {
  Tensor losses;
  binary(binary_entry::binary_cross_entropy, Rule::same, losses, self, target);
  if (weight && weight->defined()) losses.mul_(*weight);
  return reduce(losses, reduction);
}
Tensor& binary_cross_entropy_out(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                 int64_t reduction, Tensor& out) {
  return assign(out, ops::binary_cross_entropy(self, target, weight, reduction));
}
Tensor& binary_cross_entropy_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                          const OptionalTensor& weight, int64_t reduction, Tensor& grad_input) {
  ternary(ternary_entry::binary_cross_entropy_backward, grad_input, grad, self, target, {scale(self, reduction)});
  if (weight && weight->defined()) grad_input.mul_(*weight);
  return grad_input;
}
Tensor binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                     const OptionalTensor& weight, int64_t reduction) {
  Tensor grad_input;
  return ops::binary_cross_entropy_backward_out(grad, self, target, weight, reduction, grad_input);
}

}  // namespace aule::ops
