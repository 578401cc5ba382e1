// Sums of terms that several invocations find for one element (common/scattered_sum.glsl).
#pragma once
#include <ATen/Context.h>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// By one invocation in a fixed order: in deterministic mode, and of float64, which has no atomics. Else in float32.
inline bool sums_in_order(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble || at::globalContext().deterministicAlgorithms();
}
// Whether the device has an atomic addition of its own for it; else it is made of compare-and-swap.
inline bool adds_natively(const at::Tensor& t) {
  return t.scalar_type() != at::kDouble && profile_of(t).float32_atomic_add;
}

}  // namespace aule::ops
