// Rows: torchvision's operators. They wait here for the schemas, which torchvision brings when it is imported.
#include "ops/detection/detection.h"

#include <ATen/autocast_mode.h>

#include <vector>

#include "aten/register.h"

namespace aule::aten {
namespace {

// torchvision's own autocast: in float32, the results in the dtype of the first operand. Indices stay integers, which
// 16 bits of a float cannot count.
void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr auto kDevice = c10::DeviceType::PrivateUse1;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::ScalarType dtype = (*stack)[first].toTensor().scalar_type();
  for (size_t i = first; i < stack->size(); ++i)
    if ((*stack)[i].isTensor()) (*stack)[i] = at::autocast::cached_cast(at::kFloat, (*stack)[i].toTensor(), kDevice);
  op.callBoxed(stack);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    if (const at::Tensor result = (*stack)[i].toTensor(); result.is_floating_point()) (*stack)[i] = result.to(dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl(ROW("torchvision::nms", ops::nms));
  m.impl(ROW("torchvision::roi_align", ops::roi_align));
  m.impl(ROW("torchvision::_roi_align_backward", ops::roi_align_backward));
  m.impl(ROW("torchvision::roi_pool", ops::roi_pool));
  m.impl(ROW("torchvision::_roi_pool_backward", ops::roi_pool_backward));
  m.impl(ROW("torchvision::ps_roi_align", ops::ps_roi_align));
  m.impl(ROW("torchvision::_ps_roi_align_backward", ops::ps_roi_align_backward));
  m.impl(ROW("torchvision::ps_roi_pool", ops::ps_roi_pool));
  m.impl(ROW("torchvision::_ps_roi_pool_backward", ops::ps_roi_pool_backward));
  m.impl(ROW("torchvision::deform_conv2d", ops::deform_conv2d));
  m.impl(ROW("torchvision::_deform_conv2d_backward", ops::deform_conv2d_backward));
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  for (const char* name : {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&in_float32>());
}

}  // namespace aule::aten
