// Between pool.cpp and pool_long.cpp: windows, and the kernels that walk them.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

namespace aule::ops {

struct PoolWindow {
  using Extent = std::array<int32_t, 3>;
  bool adaptive = false;
  Extent in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
};

// One launch each; operands are contiguous planes.
void launch_max_forward(const PoolWindow& w, const at::Tensor& in, const at::Tensor& out, const at::Tensor& indices);
void launch_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                         const at::Tensor& indices);
void launch_avg(const PoolWindow& w, bool forward, const at::Tensor& in, const at::Tensor& out, bool count_pad,
                std::optional<int64_t> divisor);

// The same where windows, or the windows that hold one element, are more than one invocation may walk (loop_limit.h):
// one axis after another, and a long window in parts. False, and nothing done, where one launch is enough.
bool long_max_forward(const PoolWindow& w, const at::Tensor& in, const at::Tensor& out, const at::Tensor& indices);
bool long_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                       const at::Tensor& indices);
bool long_avg_forward(const PoolWindow& w, const at::Tensor& in, const at::Tensor& out, bool count_pad,
                      std::optional<int64_t> divisor);
bool long_avg_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in, bool count_pad,
                       std::optional<int64_t> divisor);

}  // namespace aule::ops
