// Activations with arguments of their own, and their backwards. The others are table entries (pointwise_unary,
// pointwise_binary).
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/pointwise/activation.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("gelu", ops::gelu));
  m.impl(ROW("gelu.out", ops::gelu_out));
  m.impl(ROW("gelu_backward", ops::gelu_backward));
  m.impl(ROW("gelu_backward.grad_input", ops::gelu_backward_out));
  m.impl(ROW("threshold.out", ops::threshold_out));
  m.impl(ROW("threshold_backward", ops::threshold_backward));
  m.impl(ROW("threshold_backward.grad_input", ops::threshold_backward_out));
  m.impl(ROW("hardtanh", ops::hardtanh));
  m.impl(ROW("hardtanh_", ops::hardtanh_));
  m.impl(ROW("hardtanh.out", ops::hardtanh_out));
  m.impl(ROW("hardtanh_backward", ops::hardtanh_backward));
  m.impl(ROW("hardtanh_backward.grad_input", ops::hardtanh_backward_out));
  m.impl(ROW("leaky_relu.out", ops::leaky_relu_out));
  m.impl(ROW("leaky_relu_backward.grad_input", ops::leaky_relu_backward_out));
  m.impl(ROW("elu.out", ops::elu_out));
  m.impl(ROW("elu_backward.grad_input", ops::elu_backward_out));
  m.impl(ROW("softplus.out", ops::softplus_out));
  m.impl(ROW("softplus_backward.grad_input", ops::softplus_backward_out));
  m.impl(ROW("hardshrink.out", ops::hardshrink_out));
  m.impl(ROW("hardshrink_backward.grad_input", ops::shrink_backward_out));
  m.impl(ROW("softshrink.out", ops::softshrink_out));
  m.impl(ROW("softshrink_backward.grad_input", ops::shrink_backward_out));
  m.impl(ROW("logit_backward.grad_input", ops::logit_backward_out));
  m.impl(ROW("log_sigmoid_forward", ops::log_sigmoid_forward));
  m.impl(ROW("log_sigmoid_forward.output", ops::log_sigmoid_forward_out));
  m.impl(ROW("log_sigmoid_backward", ops::log_sigmoid_backward));
  m.impl(ROW("log_sigmoid_backward.grad_input", ops::log_sigmoid_backward_out));
  m.impl(ROW("_prelu_kernel", ops::prelu_kernel));
  m.impl(ROW("_prelu_kernel_backward", ops::prelu_kernel_backward));
  m.impl(ROW("glu.out", ops::glu_out));
  m.impl(ROW("glu_backward", ops::glu_backward));
  m.impl(ROW("glu_backward.grad_input", ops::glu_backward_out));
  m.impl(ROW("rrelu_with_noise", ops::rrelu_with_noise));
  m.impl(ROW("rrelu_with_noise_", ops::rrelu_with_noise_));
  m.impl(ROW("rrelu_with_noise.out", ops::rrelu_with_noise_out));
}

TORCH_LIBRARY_FRAGMENT(aule, m) { m.def("gated_activation(Tensor gate, Tensor up, str activation) -> Tensor"); }
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) { m.impl("gated_activation", GUARDED(ops::gated_activation)); }
TORCH_LIBRARY_IMPL(aule, Autograd, m) {  // inference only
  m.impl("gated_activation", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace aule::aten
