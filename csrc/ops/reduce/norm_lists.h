// torch._foreach_norm: norms of many tensors by few dispatches.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <vector>

namespace aule::ops {

std::vector<at::Tensor> foreach_norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype);

}  // namespace aule::ops
