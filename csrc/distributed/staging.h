// Device tensors and the flat buffers in which a collective finds them and leaves its results: pinned host memory for
// gloo, device memory where the ranks share memory of the host.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace aule::distributed {

// A tensor, and the flat tensors that have its elements one after another: of its dtype, or of one that it is converted
// to and from. Without any the tensor is a buffer itself.
struct Part {
  at::Tensor tensor;
  std::vector<at::Tensor> flat;
};

// A factor by which a device tensor is multiplied before it leaves (PREMUL_SUM): a number or a tensor of one element.
struct Factor {
  double number = 1;
  at::Tensor tensor;
};

at::Tensor device_buffer(int64_t bytes, c10::Device device);  // of bytes
at::Tensor slice(const at::Tensor& buffer, int64_t offset_bytes, int64_t elements, at::ScalarType dtype);

// Both record copies on the current stream and wait for nothing.
void pack(const Part& part, const std::optional<Factor>& factor);
void unpack(const Part& part, int64_t divisor);

}  // namespace aule::distributed
