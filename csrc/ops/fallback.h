// The CPU fallback: what an operator without a kernel of ours gets. Warned once per operator, counted always,
// refused in strict mode (TORCH_AULE_STRICT=1).
#pragma once
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace aule::ops {

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for an operator whose kernel declined these arguments; `name` as in "aten::mul.Tensor".
void cpu_fallback(const char* name, torch::jit::Stack* stack);
// Work of `what` that a kernel hands to the host: strict mode refuses, else warned and counted.
void allow_host(const char* what, const std::string& arguments);

// Kernels, copies and fills that this thread has recorded.
uint64_t recorded_commands();

struct FallbackRow {
  std::string op;
  int64_t count;
  std::string first_arguments;  // shapes and dtypes of the first call
};
std::vector<FallbackRow> fallback_report();
void reset_fallback_report();
bool is_strict();
void set_strict(bool strict);
bool strict_from_environment();  // what TORCH_AULE_STRICT says

}  // namespace aule::ops
