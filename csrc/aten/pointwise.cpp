#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/pointwise_register.h"
#include "aten/register.h"
#include "ops/copy/kernels.h"
#include "ops/pointwise/activation.h"
#include "ops/pointwise/binary.h"
#include "ops/pointwise/complex.h"
#include "ops/pointwise/cross.h"
#include "ops/pointwise/loss.h"
#include "ops/pointwise/unary.h"

namespace aule::aten {

// Unary table entries, and the unary ops with arguments of their own.
#define UNARY_REAL(id, name, forms, ...) AULE_ENTRY_##forms(Unary, ops::unary_entry::name, name)
#define UNARY_ANY UNARY_REAL
#define UNARY_INT UNARY_REAL
#define UNARY_TEST UNARY_REAL
#define UNARY_SPECIAL UNARY_REAL

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/unary_ops.def"

  m.impl(ROW("logical_not", ops::logical_not));
  m.impl(ROW("logical_not_", ops::logical_not_));
  m.impl(ROW("logical_not.out", ops::logical_not_out));
  m.impl(ROW("bitwise_not", ops::bitwise_not));
  m.impl(ROW("bitwise_not_", ops::bitwise_not_));
  m.impl(ROW("bitwise_not.out", ops::bitwise_not_out));
  m.impl(ROW("round.decimals_out", ops::round_decimals_out));
  m.impl(ROW("nan_to_num.out", ops::nan_to_num_out));
  m.impl(ROW("angle", ops::angle));
  m.impl(ROW("angle.out", ops::angle_out));
  m.impl(ROW("logit", ops::logit));
  m.impl(ROW("logit_", ops::logit_));
  m.impl(ROW("logit.out", ops::logit_out));
  m.impl(ROW("mvlgamma.out", ops::mvlgamma_out));
  m.impl(ROW("polygamma.out", ops::polygamma_out));
  m.impl(ROW("frexp.Tensor_out", ops::frexp_out));
  m.impl(ROW("clamp", ops::clamp));
  m.impl(ROW("clamp_", ops::clamp_));
  m.impl(ROW("clamp.out", ops::clamp_out));
  m.impl(ROW("clamp.Tensor_out", ops::clamp_tensor_out));
  m.impl(ROW("clamp_min.out", ops::clamp_min_out));
  m.impl(ROW("clamp_min.Tensor_out", ops::clamp_min_tensor_out));
  m.impl(ROW("clamp_max.out", ops::clamp_max_out));
  m.impl(ROW("clamp_max.Tensor_out", ops::clamp_max_tensor_out));
}

// Binary and ternary table entries, and the arithmetic with arguments of its own.
#define BINARY_REAL(id, name, forms, ...) AULE_ENTRY_##forms(Binary, ops::binary_entry::name, name)
#define BINARY_ANY BINARY_REAL
#define BINARY_INT BINARY_REAL
#define BINARY_TEST BINARY_REAL
#define BINARY_SPECIAL BINARY_REAL

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/binary_ops.def"

  m.impl(ROW("add.Tensor", ops::add));
  m.impl(ROW("add_.Tensor", ops::add_));
  m.impl(ROW("add.out", ops::add_out));
  m.impl(ROW("sub.Tensor", ops::sub));
  m.impl(ROW("sub_.Tensor", ops::sub_));
  m.impl(ROW("sub.out", ops::sub_out));
  m.impl(ROW("rsub.Tensor", ops::rsub));
  m.impl(ROW("mul.Tensor", Binary<ops::binary_entry::mul>::functional));
  m.impl(ROW("mul_.Tensor", Binary<ops::binary_entry::mul>::in_place));
  m.impl(ROW("mul.out", Binary<ops::binary_entry::mul>::out));
  m.impl(ROW("div.Tensor", Binary<ops::binary_entry::div>::functional));
  m.impl(ROW("div_.Tensor", Binary<ops::binary_entry::div>::in_place));
  m.impl(ROW("div.out", Binary<ops::binary_entry::div>::out));
  m.impl(ROW("div.Tensor_mode", ops::div_mode));
  m.impl(ROW("div_.Tensor_mode", ops::div_mode_));
  m.impl(ROW("div.out_mode", ops::div_mode_out));
  m.impl(ROW("floor_divide", Binary<ops::binary_entry::div_floor>::functional));
  m.impl(ROW("floor_divide_.Tensor", Binary<ops::binary_entry::div_floor>::in_place));
  m.impl(ROW("floor_divide.out", Binary<ops::binary_entry::div_floor>::out));
  m.impl(ROW("remainder.Scalar_Tensor", ops::remainder_scalar_tensor));
  m.impl(ROW("nextafter", ops::nextafter));
  m.impl(ROW("nextafter_", ops::nextafter_));
  m.impl(ROW("nextafter.out", ops::nextafter_out));
  m.impl(ROW("copysign.Tensor", Binary<ops::binary_entry::copysign>::functional));
  m.impl(ROW("copysign_.Tensor", Binary<ops::binary_entry::copysign>::in_place));
  m.impl(ROW("copysign.out", Binary<ops::binary_entry::copysign>::out));
  m.impl(ROW("xlogy.Tensor", Binary<ops::binary_entry::xlogy>::functional));
  m.impl(ROW("xlogy_.Tensor", Binary<ops::binary_entry::xlogy>::in_place));
  m.impl(ROW("xlogy.OutTensor", Binary<ops::binary_entry::xlogy>::out));
  m.impl(ROW("__lshift__.Tensor", Binary<ops::binary_entry::bitwise_left_shift>::functional));
  m.impl(ROW("__lshift__.Scalar", Binary<ops::binary_entry::bitwise_left_shift>::scalar));
  m.impl(ROW("__ilshift__.Tensor", Binary<ops::binary_entry::bitwise_left_shift>::in_place));
  m.impl(ROW("__ilshift__.Scalar", Binary<ops::binary_entry::bitwise_left_shift>::scalar_in_place));
  m.impl(ROW("__rshift__.Tensor", Binary<ops::binary_entry::bitwise_right_shift>::functional));
  m.impl(ROW("__rshift__.Scalar", Binary<ops::binary_entry::bitwise_right_shift>::scalar));
  m.impl(ROW("__irshift__.Tensor", Binary<ops::binary_entry::bitwise_right_shift>::in_place));
  m.impl(ROW("__irshift__.Scalar", Binary<ops::binary_entry::bitwise_right_shift>::scalar_in_place));

  m.impl(ROW("pow.Tensor_Tensor", ops::pow));
  m.impl(ROW("pow.Tensor_Tensor_out", ops::pow_out));
  m.impl(ROW("pow.Tensor_Scalar", ops::pow_tensor_scalar));
  m.impl(ROW("pow.Tensor_Scalar_out", ops::pow_tensor_scalar_out));
  m.impl(ROW("pow.Scalar_out", ops::pow_scalar_out));
  m.impl(ROW("ldexp.Tensor", ops::ldexp));
  m.impl(ROW("ldexp_", ops::ldexp_));
  m.impl(ROW("ldexp.out", ops::ldexp_out));

  m.impl(ROW("lerp.Scalar", ops::lerp_scalar));
  m.impl(ROW("lerp_.Scalar", ops::lerp_scalar_));
  m.impl(ROW("lerp.Scalar_out", ops::lerp_scalar_out));
  m.impl(ROW("lerp.Tensor_out", ops::lerp_tensor_out));
  m.impl(ROW("addcmul_", ops::addcmul_));
  m.impl(ROW("addcmul.out", ops::addcmul_out));
  m.impl(ROW("addcdiv_", ops::addcdiv_));
  m.impl(ROW("addcdiv.out", ops::addcdiv_out));

  m.impl(ROW("where.self", ops::where));
  m.impl(ROW("where.self_out", ops::where_out));
  m.impl(ROW("masked_fill_.Scalar", ops::masked_fill__scalar));
  m.impl(ROW("masked_fill_.Tensor", ops::masked_fill__tensor));
}

// Complex numbers made of real ones, and conjugates.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("complex.out", ops::complex_out));
  m.impl(ROW("polar.out", ops::polar_out));
  m.impl(ROW("conj_physical.out", ops::conj_physical_out));
  m.impl(ROW("conj_physical_", ops::conj_physical_));
}

// Activations with arguments of their own, and their backwards. The others are table entries.
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl(ROW("linalg_cross.out", ops::linalg_cross_out)); }

// fill_ and zero_.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("fill_.Scalar", ops::fill__scalar));
  m.impl(ROW("fill_.Tensor", ops::fill__tensor));
  m.impl(ROW("zero_", ops::zero_));
}

// Elementwise losses.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("mse_loss", ops::mse_loss));
  m.impl(ROW("mse_loss.out", ops::mse_loss_out));
  m.impl(ROW("mse_loss_backward", ops::mse_loss_backward));
  m.impl(ROW("mse_loss_backward.grad_input", ops::mse_loss_backward_out));
  m.impl(ROW("smooth_l1_loss", ops::smooth_l1_loss));
  m.impl(ROW("smooth_l1_loss.out", ops::smooth_l1_loss_out));
  m.impl(ROW("smooth_l1_loss_backward.grad_input", ops::smooth_l1_loss_backward_out));
  m.impl(ROW("huber_loss", ops::huber_loss));
  m.impl(ROW("huber_loss.out", ops::huber_loss_out));
  m.impl(ROW("huber_loss_backward.out", ops::huber_loss_backward_out));
  m.impl(ROW("binary_cross_entropy", ops::binary_cross_entropy));
  m.impl(ROW("binary_cross_entropy.out", ops::binary_cross_entropy_out));
  m.impl(ROW("binary_cross_entropy_backward", ops::binary_cross_entropy_backward));
  m.impl(ROW("binary_cross_entropy_backward.grad_input", ops::binary_cross_entropy_backward_out));
}

}  // namespace aule::aten
