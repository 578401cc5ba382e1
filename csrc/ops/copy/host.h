// Bytes between host and device tensors of the same dense layout and dtype.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// The caller may change the source when this returns, except with non_blocking from pinned memory.
void upload(const at::Tensor& dst, const at::Tensor& host, bool non_blocking);
// Waits for the values, except with non_blocking into pinned memory.
void download(const at::Tensor& host, const at::Tensor& src, bool non_blocking);

}  // namespace aule::ops
