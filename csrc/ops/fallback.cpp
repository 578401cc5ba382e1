#include "ops/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "runtime/generator.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

std::atomic<bool>& strict_flag() {
  static std::atomic<bool> flag = strict_from_environment();
  return flag;
}

struct Report {
  std::mutex mutex;
  std::map<std::string, FallbackRow> rows;
};
Report& report() {
  static auto* r = new Report;
  return *r;
}

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

void count(const std::string& name, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool first = false;
  std::string arguments;
  {
    std::lock_guard lock(report().mutex);
    auto [it, inserted] = report().rows.try_emplace(name, FallbackRow{name, 0, {}});
    if (inserted) it->second.first_arguments = describe(op, stack);
    first = it->second.count++ == 0;
    arguments = it->second.first_arguments;
  }
  if (first) {
    TORCH_WARN("aule: operator ", name, " has no kernel on device aule and runs on the CPU (", arguments,
               "). Counted in torch.aule.fallback_report(); TORCH_AULE_STRICT=1 makes this an error.");
  }
}

// Random operators: the CPU kernel draws from a generator seeded by ours, so that torch.aule.manual_seed governs it.
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

}  // namespace

bool strict_from_environment() {
  const char* text = std::getenv("TORCH_AULE_STRICT");
  return text != nullptr && *text != '\0' && std::string(text) != "0";
}
bool is_strict() { return strict_flag().load(std::memory_order_relaxed); }
void set_strict(bool strict) { strict_flag() = strict; }

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.schema().operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), "aule: operator ", name, " has no kernel on device aule and strict mode refuses the CPU (",
      describe(op, *stack), "). Unset TORCH_AULE_STRICT, or call torch.aule.set_strict(False), to allow the fallback.");
  count(name, op, *stack);
  translate_generator(op, stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

std::vector<FallbackRow> fallback_report() {
  std::lock_guard lock(report().mutex);
  std::vector<FallbackRow> rows;
  for (const auto& [name, row] : report().rows) rows.push_back(row);
  return rows;
}
void reset_fallback_report() {
  std::lock_guard lock(report().mutex);
  report().rows.clear();
}

}  // namespace aule::ops
