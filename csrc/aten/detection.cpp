// Rows: torchvision's operators. They wait here for the schemas, which torchvision brings when it is imported.
#include "ops/detection/detection.h"

#include <ATen/autocast_mode.h>

#include <vector>

#include "aten/register.h"

namespace aule::aten {
namespace {

// torchvision's own autocast: in float32, the result in the dtype of the first operand.
void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr auto kDevice = c10::DeviceType::PrivateUse1;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::ScalarType dtype = (*stack)[first].toTensor().scalar_type();
  for (size_t i = first; i < stack->size(); ++i)
    if ((*stack)[i].isTensor()) (*stack)[i] = at::autocast::cached_cast(at::kFloat, (*stack)[i].toTensor(), kDevice);
  op.callBoxed(stack);
  const at::Tensor result = stack->back().toTensor();
  if (result.is_floating_point()) stack->back() = result.to(dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl(ROW("torchvision::nms", ops::nms));
  m.impl(ROW("torchvision::roi_align", ops::roi_align));
  m.impl(ROW("torchvision::_roi_align_backward", ops::roi_align_backward));
  m.impl(ROW("torchvision::deform_conv2d", ops::deform_conv2d));
  m.impl(ROW("torchvision::_deform_conv2d_backward", ops::deform_conv2d_backward));
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  m.impl("nms", torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  m.impl("roi_align", torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  m.impl("deform_conv2d", torch::CppFunction::makeFromBoxedFunction<&in_float32>());
}

}  // namespace aule::aten
