// The check of floating point inputs, and the type that kernels compute in for them.
#pragma once
#include <bit>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

inline void check_floating(const char* op, const at::Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.is_floating_point(), op, ": expected a floating point tensor, but got ",
                              t.scalar_type());
}

// float64 for itself, float32 for the smaller types.
inline DType compute_type(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }
// A number of a kernel's compute type in 64 bits of its parameters: common/real.glsl.
inline uint64_t real_bits(DType compute, double x) {
  return compute == DType::f64 ? std::bit_cast<uint64_t>(x) : std::bit_cast<uint32_t>(static_cast<float>(x));
}

inline c10::ScalarType sum_type_of(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Before anything is recorded: whether the device can compute in a tensor's float64.
inline void check_float64(const char* op, const at::Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.scalar_type() != at::kDouble || caps_of(t).float64, op,
                              ": this device has no float64 arithmetic");
}

}  // namespace aule::ops
