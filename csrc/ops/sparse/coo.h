// Sparse COO tensors: PyTorch's own, over indices and values on the device.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

// Waits for the number of distinct indices, which is the result's size.
at::Tensor coalesce_coo(const at::Tensor& self);
at::Tensor coo_to_dense(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<bool> masked_grad);
// dense + sparse is dense, sparse + sparse is sparse and not coalesced.
at::Tensor add_coo(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor& add_coo_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
// By a number, or by a dense tensor of the same sizes.
at::Tensor mul_coo(const at::Tensor& self, const at::Tensor& other);
at::Tensor& mul_coo_(at::Tensor& self, const at::Tensor& other);
at::Tensor& mul_coo_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out);
// The elements of a dense or sparse tensor at the indices of a sparse one.
at::Tensor mask_coo(const at::Tensor& self, const at::Tensor& mask);

}  // namespace aule::ops
