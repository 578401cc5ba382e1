// Device tensors and the pinned host memory in which gloo finds them and leaves its results.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace aule::distributed {

// A tensor, and the flat host tensors that have its elements one after another: of its dtype, or of one that it is
// converted to and from.
struct Part {
  at::Tensor tensor;
  std::vector<at::Tensor> host;
};

// What a device tensor is multiplied by before it leaves (PREMUL_SUM): a number or a tensor of one element.
struct Factor {
  double number = 1;
  at::Tensor tensor;
};

at::Tensor host_buffer(int64_t bytes, c10::Device device);  // pinned, of bytes
at::Tensor slice(const at::Tensor& buffer, int64_t offset_bytes, int64_t elements, at::ScalarType dtype);

// Both record copies on the current stream and wait for nothing.
void copy_to_host(const Part& part, const std::optional<Factor>& factor);
void copy_from_host(const Part& part, int64_t divisor);

}  // namespace aule::distributed
