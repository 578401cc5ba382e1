// The check of floating point inputs, and the type that kernels compute in for them.
#pragma once
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

inline void check_floating(const char* op, const at::Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.is_floating_point(), op, ": expected a floating point tensor, but got ",
                              t.scalar_type());
}

// float64 for itself, float32 for the smaller types.
inline DType compute_type(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace aule::ops
