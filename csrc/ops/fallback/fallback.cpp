#include "ops/fallback/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>

#include <sstream>

#include "kernels/recorded.h"
#include "ops/fallback/host_copies.h"
#include "ops/tensor/one_device.h"
#include "runtime/generator.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

std::string describe(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::ostringstream text;
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  const char* separator = "";
  auto one = [&](const at::Tensor& t) {
    if (t.defined())
      text << t.scalar_type() << t.sizes() << (t.is_cpu() ? " cpu" : "");
    else
      text << "None";
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = stack[first + i];
    if (value.isTensor()) {
      text << separator << arguments[i].name() << ": ";
      one(value.toTensor());
    } else if (value.isTensorList()) {
      text << separator << arguments[i].name() << ": [";
      for (const at::Tensor& t : value.toTensorVector()) {
        one(t);
        text << ' ';
      }
      text << ']';
    } else {
      continue;
    }
    separator = ", ";
  }
  return text.str();
}

// For random operators: our generator seeds the CPU kernel's, so that torch.aule.manual_seed determines its draws.
void translate_generator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "generator") continue;
    auto& value = (*stack)[first + i];
    std::optional<at::Generator> given;
    if (value.isGenerator()) given = value.toGenerator();
    if (given.has_value() && given->device().is_cpu()) return;
    const int device =
        given.has_value() && given->device().index() >= 0 ? given->device().index() : runtime::current_device();
    const auto state = runtime::philox_for(given, device, 4);
    value = at::detail::createCPUGenerator(state.seed ^ (state.offset * 0x9E3779B97F4A7C15ull));
  }
}

// Writes that are not in the schemas: the statistics of batch normalization.
bool written_silently(const std::string& op, const std::string& argument) {
  return (argument == "running_mean" || argument == "running_var") && op.find("batch_norm") != std::string::npos &&
         op.find("backward") == std::string::npos;
}

template <class F>
void replace_tensors(c10::IValue& value, F replacement) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    if (t.defined()) value = replacement(t);
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& t : tensors)
      if (t.defined()) t = replacement(t);
    value = c10::List<at::Tensor>(tensors);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> replaced;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      replaced.push_back(t.has_value() && t->defined() ? std::optional(replacement(*t)) : t);
    value = std::move(replaced);
  }
}

void check_the_cpu_can(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "aule: operator ",
                              schema.operator_name(), " has a kernel neither on device aule nor on the CPU");
  for (const auto& result : schema.returns())
    TORCH_CHECK(result.alias_info() == nullptr || result.alias_info()->isWrite(), "aule: operator ",
                schema.operator_name(), " returns a view, which the CPU cannot make of device memory");
}

// Copies results to the device with the strides of the CPU's. Tensors that the op writes stay the same tensors.
void take_results(const c10::FunctionSchema& schema, torch::jit::Stack* stack, HostCopies& copies,
                  std::optional<c10::Device> device) {
  copies.write_back();
  if (!device.has_value()) return;
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    replace_tensors((*stack)[i], [&](const at::Tensor& t) {
      const std::optional<at::Tensor> original = copies.original_of(t);
      return original.has_value() ? *original : device_copy(copies.narrowed(t), *device);
    });
}

// Runs the operator on copies of the device tensors, with `wide` in float32 instead of 16 bits. Then returns false if
// no tensor has 16 bits.
bool run_on_twins(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool wide) {
  const c10::FunctionSchema& schema = op.schema();
  const auto& arguments = schema.arguments();
  const size_t first = stack->size() - arguments.size();
  HostCopies copies;
  std::optional<c10::Device> device;
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    const bool written = (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) ||
                         written_silently(schema.name(), arguments[i].name());
    replace_tensors(value, [&](const at::Tensor& t) {
      copies.add(t, written);
      return t;
    });
    if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
      device = value.toDevice().has_index() ? value.toDevice()
                                            : c10::Device(c10::DeviceType::PrivateUse1, runtime::current_device());
      value = c10::Device(c10::DeviceType::CPU);
    }
  }
  if (!device.has_value()) device = copies.device();
  copies.make_all();
  if (wide && !copies.widen()) return false;
  for (size_t i = 0; i < arguments.size(); ++i)
    replace_tensors((*stack)[first + i], [&](const at::Tensor& t) { return copies.copy_of(t); });

  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  take_results(schema, stack, copies, device);
  return true;
}

// The CPU has fewer kernels of 16-bit types than torch.cuda.
bool says_too_narrow(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  for (const char* part : {"not implemented for 'Half'", "not implemented for 'BFloat16'",
                           "not implemented for 'ComplexHalf'", "doesn't support tensors of type: Half"})
    if (text.find(part) != std::string::npos) return true;
  return false;
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_the_cpu_can(op);
  const size_t arguments = op.schema().arguments().size(), first = stack->size() - arguments;
  const torch::jit::Stack given(stack->begin() + static_cast<int64_t>(first), stack->end());
  try {
    run_on_twins(op, stack, /*wide=*/false);
  } catch (const c10::Error& error) {
    if (!says_too_narrow(error)) throw;
    stack->resize(first);
    stack->insert(stack->end(), given.begin(), given.end());
    if (!run_on_twins(op, stack, /*wide=*/true)) throw;
  }
}

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_one_device(op, *stack);
  const std::string name = c10::toString(op.schema().operator_name());
  allow_host(name, [&] { return describe(op, *stack); });
  translate_generator(op, stack);
  run_on_cpu(op, stack);
}

void cpu_fallback(const char* name, torch::jit::Stack* stack) {
  std::string whole(name);
  // Operators for PrivateUse1 devices only. The CPU has them under their public names.
  if (whole == "aten::convolution_overrideable") whole = "aten::convolution";
  if (whole == "aten::convolution_backward_overrideable") {
    whole = "aten::convolution_backward";
    const int64_t channels = stack->front().toTensor().size(1);
    stack->insert(stack->begin() + 3, c10::IValue(std::vector<int64_t>{channels}));  // sizes of the bias
  }
  cpu_fallback(find_operator(whole), stack);
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(),
                              ": sparse tensors are not supported on device aule here; use dense ones (to_dense()).");
}
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(),
                              ": quantized tensors are not supported on device aule; use dequantize() on the CPU.");
}
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(),
                              ": nested tensors of the strided layout, which attention over jagged ones makes, are not "
                              "supported on device aule; use padded tensors with a mask, or "
                              "torch.nn.attention.varlen.varlen_attn.");
}

uint64_t recorded_commands() { return aule::recorded_commands(); }

}  // namespace aule::ops