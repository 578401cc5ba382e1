// From tensors to what plans of rows are made of (plan.h), and from a plan to a kernel's constants.
#pragma once
#include "ops/norm/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// A tensor that will be copied to new memory, because it is not contiguous, has address 0.
inline RowOperand row_operand(const at::Tensor& t, const char* name) {
  return {dtype_of(t, name), t.is_contiguous() ? address_of(t) : 0};
}
inline std::optional<RowOperand> optional_operand(const at::Tensor& t, const char* name) {
  return t.defined() ? std::optional(row_operand(t, name)) : std::nullopt;
}

// Kernels do not use the dtype of an absent operand.
inline DType dtype_or_float(const std::optional<RowOperand>& t) { return t ? t->dtype : DType::f32; }
inline DType dtype_or_float(const at::Tensor& t, const char* name) {
  return t.defined() ? dtype_of(t, name) : DType::f32;
}

template <class Spec>
void set_rows(Spec& spec, const RowwisePlan& plan) {
  spec.vec = static_cast<int>(plan.vec);
  spec.items = plan.items;
  spec.local = static_cast<int>(plan.local);
  if constexpr (requires { spec.is_full; }) spec.is_full = plan.is_full;
}

}  // namespace aule::ops
