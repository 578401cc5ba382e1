// hash_tensor: the exclusive or of elements as 64 bits.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

at::Tensor& hash_tensor_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, int64_t mode, at::Tensor& out);

}  // namespace aule::ops
