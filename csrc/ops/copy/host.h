// Bytes between host and device tensors, and those of two devices, of the same dense layout and dtype.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// The caller may change the source when this returns, except with non_blocking from pinned memory.
void upload(const at::Tensor& dst, const at::Tensor& host, bool non_blocking);
// Waits for the values, except with non_blocking into pinned memory.
void download(const at::Tensor& host, const at::Tensor& src, bool non_blocking);

// Between two devices, through the host, in the order of both current streams. Returns when the source has been read.
void send_bytes(const at::Tensor& dst, const at::Tensor& src);

}  // namespace aule::ops
