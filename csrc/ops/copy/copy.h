// Copies between host and device, between devices, and on the device; .item().
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// The kernel behind copy_, to and clone: any dtype pair, any strides on both sides, `self` broadcast to `dst`.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst);
at::Scalar local_scalar_dense(const at::Tensor& self);

}  // namespace aule::ops
