// The gradient of aule::linear_bias_act, and what it is under autocast. Its schema: aten/matmul.cpp.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

#include "ops/matmul/linear.h"

namespace aule::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

const auto& linear_bias_act_op() {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("aule::linear_bias_act", "")
                             .typed<decltype(ops::linear_bias_act)>();
  return op;
}

// PyTorch's operators where a gradient is wanted: they keep what it takes. Product and activation are then two
// kernels.
at::Tensor linear_bias_act_autograd(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                    std::string_view activation, const OptionalTensor& residual) {
  const auto is_differentiated = [](const OptionalTensor& t) {
    return t && t->defined() && ((c10::GradMode::is_enabled() && t->requires_grad()) || t->_fw_grad(0).defined());
  };
  if (is_differentiated(x) || is_differentiated(weight) || is_differentiated(bias) || is_differentiated(residual))
    return ops::linear_bias_act_composed(x, weight, bias, activation, residual);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return linear_bias_act_op().call(x, weight, bias, activation, residual);
}

at::Tensor linear_bias_act_autocast(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                    std::string_view activation, const OptionalTensor& residual) {
  constexpr auto kDevice = c10::DeviceType::PrivateUse1;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const auto dtype = at::autocast::get_autocast_dtype(kDevice);
  const auto cast = [&](const OptionalTensor& t) {
    return t ? OptionalTensor(at::autocast::cached_cast(dtype, *t, kDevice)) : t;
  };
  return linear_bias_act_op().call(*cast(x), *cast(weight), cast(bias), activation, cast(residual));
}

TORCH_LIBRARY_IMPL(aule, Autograd, m) { m.impl("linear_bias_act", linear_bias_act_autograd); }
TORCH_LIBRARY_IMPL(aule, AutocastPrivateUse1, m) { m.impl("linear_bias_act", linear_bias_act_autocast); }

}  // namespace
}  // namespace aule::aten
