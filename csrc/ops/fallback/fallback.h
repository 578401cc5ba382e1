// The CPU fallback of operators without a kernel of ours. It warns once per operator, counts each call, and throws in
// strict mode (TORCH_AULE_STRICT=1).
#pragma once
#include <ATen/core/stack.h>

#include <cstdint>

#include "ops/tensor/fallback_report.h"

namespace c10 {
class OperatorHandle;
}

namespace aule::ops {

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for an operator whose kernel declined these arguments; `name` as in "aten::mul.Tensor".
void cpu_fallback(const char* name, torch::jit::Stack* stack);
// Raise: for tensors of kinds that have no kernel of ours, and that the CPU cannot stand in for.
void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Kernels, copies and fills that this thread has recorded.
uint64_t recorded_commands();

}  // namespace aule::ops
