// Activations with arguments of their own, and their backwards; the others are rows (pointwise_unary,
// pointwise_binary).
#include "ops/pointwise_activation.h"
#include "aten/register.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("gelu", GUARDED(ops::gelu));
  m.impl("gelu.out", GUARDED(ops::gelu_out));
  m.impl("gelu_backward", GUARDED(ops::gelu_backward));
  m.impl("gelu_backward.grad_input", GUARDED(ops::gelu_backward_out));
  m.impl("threshold.out", GUARDED(ops::threshold_out));
  m.impl("threshold_backward", GUARDED(ops::threshold_backward));
  m.impl("threshold_backward.grad_input", GUARDED(ops::threshold_backward_out));
  m.impl("hardtanh", GUARDED(ops::hardtanh));
  m.impl("hardtanh_", GUARDED(ops::hardtanh_));
  m.impl("hardtanh.out", GUARDED(ops::hardtanh_out));
  m.impl("hardtanh_backward", GUARDED(ops::hardtanh_backward));
  m.impl("hardtanh_backward.grad_input", GUARDED(ops::hardtanh_backward_out));
  m.impl("leaky_relu.out", GUARDED(ops::leaky_relu_out));
  m.impl("leaky_relu_backward.grad_input", GUARDED(ops::leaky_relu_backward_out));
  m.impl("elu.out", GUARDED(ops::elu_out));
  m.impl("elu_backward.grad_input", GUARDED(ops::elu_backward_out));
  m.impl("softplus.out", GUARDED(ops::softplus_out));
  m.impl("softplus_backward.grad_input", GUARDED(ops::softplus_backward_out));
  m.impl("hardshrink.out", GUARDED(ops::hardshrink_out));
  m.impl("hardshrink_backward.grad_input", GUARDED(ops::shrink_backward_out));
  m.impl("softshrink.out", GUARDED(ops::softshrink_out));
  m.impl("softshrink_backward.grad_input", GUARDED(ops::shrink_backward_out));
  m.impl("logit_backward.grad_input", GUARDED(ops::logit_backward_out));
  m.impl("log_sigmoid_forward", GUARDED(ops::log_sigmoid_forward));
  m.impl("log_sigmoid_forward.output", GUARDED(ops::log_sigmoid_forward_out));
  m.impl("log_sigmoid_backward", GUARDED(ops::log_sigmoid_backward));
  m.impl("log_sigmoid_backward.grad_input", GUARDED(ops::log_sigmoid_backward_out));
  m.impl("_prelu_kernel", GUARDED(ops::prelu_kernel));
  m.impl("_prelu_kernel_backward", GUARDED(ops::prelu_kernel_backward));
  m.impl("glu.out", GUARDED(ops::glu_out));
  m.impl("glu_backward", GUARDED(ops::glu_backward));
  m.impl("glu_backward.grad_input", GUARDED(ops::glu_backward_out));
  m.impl("rrelu_with_noise", GUARDED(ops::rrelu_with_noise));
  m.impl("rrelu_with_noise_", GUARDED(ops::rrelu_with_noise_));
  m.impl("rrelu_with_noise.out", GUARDED(ops::rrelu_with_noise_out));
}

}  // namespace aule::aten
