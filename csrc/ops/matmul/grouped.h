// torch.nn.functional.grouped_mm: products of groups whose ends are known to the device alone.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

// Grouped products of float32, float16 or bfloat16, with offs int32 [G], which nothing waits for:
//   self [M, K], mat2 [G, K, N]  rows up to offs[g] by mat2[g] -> [M, N]; rows past the last group are 0
//   self [G, M, K], mat2 [K, N]  columns up to offs[g] of self[g] -> [M, N]; columns past the last group are 0
//   self [M, K], mat2 [K, N]     k up to offs[g] -> [G, M, N]
// Without offs: self [G, M, K] @ mat2 [G, K, N].
at::Tensor grouped_mm(const at::Tensor& self, const at::Tensor& mat2, const std::optional<at::Tensor>& offs,
                      const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype);

}  // namespace aule::ops
