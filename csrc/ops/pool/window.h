// The kernels that walk windows, which pool.cpp and long_windows.cpp launch.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/pool/plan.h"

namespace aule::ops {

// One launch each; operands are contiguous planes.
void launch_max_forward(const PoolWindow& w, const at::Tensor& in, const at::Tensor& out, const at::Tensor& indices);
void launch_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                         const at::Tensor& indices);
void launch_avg(const PoolWindow& w, bool forward, const at::Tensor& in, const at::Tensor& out, bool count_pad,
                std::optional<int64_t> divisor);

// The same where the plan is not to be at once: one axis after another, and a long window in parts.
void long_max_forward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& in, const at::Tensor& out,
                      const at::Tensor& indices);
void long_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                       const at::Tensor& indices);
void long_avg_forward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& in, const at::Tensor& out,
                      bool count_pad, std::optional<int64_t> divisor);
void long_avg_backward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& grad, const at::Tensor& grad_in,
                       bool count_pad, std::optional<int64_t> divisor);

}  // namespace aule::ops
