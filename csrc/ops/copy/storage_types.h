// Conversions of dtypes that have no arithmetic on the device: float8, and unsigned integers of 16 to 64 bits.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

bool is_float8(c10::ScalarType t);
// uint16, uint32 or uint64.
bool is_wide_unsigned(c10::ScalarType t);
inline bool is_storage_only(c10::ScalarType t) { return is_float8(t) || is_wide_unsigned(t); }

// The values in a dtype that holds them and has arithmetic: float32 of float8, else an integer type of more bits, or
// floating point, float64 if `in_double`, of uint64.
at::Tensor with_arithmetic(const at::Tensor& t, bool in_double = false);

// As copy_strided, where a dtype is storage only.
void convert_storage(const at::Tensor& dst, const at::Tensor& src);

}  // namespace aule::ops
