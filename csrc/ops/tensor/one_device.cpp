#include "ops/tensor/one_device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <string_view>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

template <class F>
void each_tensor(const c10::IValue& value, F fn) {
  if (value.isTensor()) {
    if (const at::Tensor& t = value.toTensor(); t.defined()) fn(t);
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector())
      if (t.defined()) fn(t);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      if (t.has_value() && t->defined()) fn(*t);
  }
}

// Arguments that operators of torch.cuda read on the host, too.
bool may_stay_on_host(std::string_view op, std::string_view argument) {
  struct Row {
    std::string_view op, argument;
  };
  static constexpr Row kRows[] = {
      {"aten::_pack_padded_sequence", "lengths"},
      {"aten::_nested_from_padded", "cpu_nested_shape_example"},
  };
  for (const Row& row : kRows)
    if (row.op == op && row.argument == argument) return true;
  return false;
}

}  // namespace

void check_one_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto& arguments = schema.arguments();
  const size_t first = stack.size() - arguments.size();
  std::optional<c10::Device> device;
  bool indexes = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    indexes = indexes || stack[first + i].isOptionalTensorList();
    each_tensor(stack[first + i], [&](const at::Tensor& t) {
      if (!device.has_value() && t.device().type() == c10::DeviceType::PrivateUse1) device = t.device();
    });
  }
  // PyTorch's loops over lists make a call for each element.
  if (!device.has_value() || schema.name().starts_with("aten::_foreach_")) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = arguments[i];
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool index = stack[first + i].isOptionalTensorList();
    each_tensor(stack[first + i], [&](const at::Tensor& t) {
      if (t.device() == *device) return;
      if (t.is_cpu() && (index || (t.dim() == 0 && !written) || may_stay_on_host(schema.name(), argument.name())))
        return;
      TORCH_CHECK(!indexes || i > 0, "indices should be either on cpu or on the same device as the indexed tensor (",
                  t.device(), ")");
      TORCH_CHECK(false, two_devices(*device, t.device()), " (when checking argument ", argument.name(), " of ",
                  schema.operator_name(), ")");
    });
  }
}

c10::OperatorHandle find_operator(std::string_view name) {
  const size_t dot = name.find('.');
  const std::string overload(dot == std::string_view::npos ? "" : name.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchemaOrThrow(std::string(name.substr(0, dot)).c_str(), overload.c_str());
}

void check_one_device(const char* name, const torch::jit::Stack& stack) {
  check_one_device(find_operator(name), stack);
}

}  // namespace aule::ops
