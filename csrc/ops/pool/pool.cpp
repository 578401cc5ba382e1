#include "ops/pool/pool.h"

#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "kernels_pool.gen.h"
#include "ops/pool/window.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Window = PoolWindow;
using Extent = Window::Extent;

Extent spatial(const at::Tensor& t, int dims) {
  Extent e{1, 1, 1};
  for (int d = 0; d < dims; ++d)
    e[static_cast<size_t>(3 - dims + d)] = static_cast<int32_t>(t.size(t.dim() - dims + d));
  return e;
}
Extent expand(at::IntArrayRef values, int dims, int32_t fill, const char* op, const char* name) {
  TORCH_CHECK(values.size() == 1 || values.size() == static_cast<size_t>(dims), op, ": ", name, " must be one int or ",
              dims, " ints, got ", values);
  Extent e{fill, fill, fill};
  for (int d = 0; d < dims; ++d)
    e[static_cast<size_t>(3 - dims + d)] =
        static_cast<int32_t>(values[values.size() == 1 ? 0 : static_cast<size_t>(d)]);
  return e;
}

// Whole numbers that the CPU pools too.
enum class Integers { none, int64, all };

void check_input(const char* op, const at::Tensor& self, int dims, Integers integers = Integers::none) {
  TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, op, ": expected a ", dims + 1, "-D or ", dims + 2,
              "-D tensor, got shape ", self.sizes());
  const at::ScalarType type = self.scalar_type();
  const bool is_whole = integers == Integers::int64 ? type == at::kLong
                                                    : integers == Integers::all && type != at::kBool &&
                                                          at::isIntegralType(type, /*includeBool=*/false);
  TORCH_CHECK_NOT_IMPLEMENTED(has_dtype(type) && (self.is_floating_point() || is_whole), op, ": dtype ", type,
                              " has no kernel on device aule");
  check_float64(op, self);
  for (int d = 1; d <= dims; ++d)
    TORCH_CHECK(self.size(-d) > 0, op, ": expected non-zero sizes besides the batch, got shape ", self.sizes());
}

Window fixed_window(const char* op, const at::Tensor& self, int dims, at::IntArrayRef kernel, at::IntArrayRef stride,
                    at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  Window w;
  w.in = spatial(self, dims);
  w.kernel = expand(kernel, dims, 1, op, "kernel_size");
  w.stride = stride.empty() ? w.kernel : expand(stride, dims, 1, op, "stride");
  w.pad = expand(padding, dims, 0, op, "padding");
  w.dilation = expand(dilation, dims, 1, op, "dilation");
  for (size_t d = static_cast<size_t>(3 - dims); d < 3; ++d) {
    TORCH_CHECK(w.kernel[d] > 0 && w.stride[d] > 0 && w.dilation[d] > 0, op,
                ": kernel_size, stride and dilation must be greater than zero");
    TORCH_CHECK(w.pad[d] >= 0 && w.pad[d] <= ceil_div((w.kernel[d] - 1) * w.dilation[d], 2), op,
                ": padding should be at most half of the effective kernel size, got ", padding, " for kernel_size ",
                kernel);
    w.out[d] = at::native::pooling_output_shape<int32_t>(w.in[d], w.kernel[d], w.pad[d], w.stride[d], w.dilation[d],
                                                         ceil_mode);
    TORCH_CHECK(w.out[d] > 0, op, ": the output would be empty for input of shape ", self.sizes());
  }
  return w;
}
Window adaptive_window(const char* op, const at::Tensor& self, int dims, at::IntArrayRef output_size) {
  Window w;
  w.adaptive = true;
  w.in = spatial(self, dims);
  w.out = expand(output_size, dims, 1, op, "output_size");
  return w;
}

// Adaptive averages over volumes are contiguous in PyTorch whatever the input's layout is, those over planes follow it.
at::MemoryFormat adaptive_format(const at::Tensor& self, int dims) {
  return dims == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

std::vector<int64_t> out_shape(const at::Tensor& self, int dims, const Window& w) {
  std::vector<int64_t> shape = self.sizes().vec();
  for (int d = 0; d < dims; ++d)
    shape[shape.size() - static_cast<size_t>(dims - d)] = w.out[static_cast<size_t>(3 - dims + d)];
  return shape;
}

template <class Array>
void put(Array& to, const Extent& from) {
  std::copy(from.begin(), from.end(), to);
}

// float64 and 64-bit integers for themselves, smaller types in float32 or widened.
DType pool_type(DType storage) { return !is_floating(storage) ? DType::i64 : compute_type(storage); }

template <class Params>
void put(Params& p, const Window& w) {
  put(p.in_size, w.in);
  put(p.out_size, w.out);
  put(p.kernel, w.kernel);
  put(p.stride, w.stride);
  put(p.pad, w.pad);
}

void launch_max(const Window& w, MaxPoolDIRECTION direction, const at::Tensor& in, const at::Tensor& out,
                const at::Tensor& indices) {
  const bool forward = direction == MaxPoolDIRECTION::forward;
  MaxPoolParams p{};
  TensorArgs args;
  p.in_ = args.read(in);
  p.out_ = args.write(out);
  p.indices = forward ? args.write(indices) : args.read(indices);
  p.n = static_cast<uint64_t>(out.numel());
  put(p, w);
  put(p.dilation, w.dilation);
  const DType dtype = dtype_of(in, "max_pool");
  launch(current(in), kernel::max_pool(direction, pool_type(dtype)), {.dtype = dtype, .adaptive = w.adaptive}, p, args,
         linear_grid(ceil_div(p.n, MaxPoolParams::kLocal)));
}

}  // namespace

void launch_max_forward(const PoolWindow& w, const at::Tensor& in, const at::Tensor& out, const at::Tensor& indices) {
  launch_max(w, MaxPoolDIRECTION::forward, in, out, indices);
}
void launch_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                         const at::Tensor& indices) {
  launch_max(w, MaxPoolDIRECTION::backward, grad, grad_in, indices);
}
void launch_avg(const PoolWindow& w, bool forward, const at::Tensor& in, const at::Tensor& out, bool count_pad,
                std::optional<int64_t> divisor) {
  AvgPoolParams p{};
  TensorArgs args;
  p.in_ = args.read(in);
  p.out_ = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  put(p, w);
  p.divisor = static_cast<int32_t>(divisor.value_or(0));
  const DType dtype = dtype_of(in, "avg_pool");
  launch(current(in),
         kernel::avg_pool(forward ? AvgPoolDIRECTION::forward : AvgPoolDIRECTION::backward, pool_type(dtype)),
         {.dtype = dtype, .adaptive = w.adaptive, .count_pad = count_pad}, p, args,
         linear_grid(ceil_div(p.n, AvgPoolParams::kLocal)));
}

namespace {

PoolPlan plan_of(const Window& w, PoolPass pass, const at::Tensor& in) {
  const Caps& caps = caps_of(in);
  const auto plan = pool_plan(caps, w, pass);
  TORCH_CHECK_NOT_IMPLEMENTED(
      plan.has_value(), "avg_pool_backward: too many windows hold one element for one loop: ", loop_limit_text(caps));
  return *plan;
}

void run_avg(const Window& w, AvgPoolDIRECTION direction, const at::Tensor& in, const at::Tensor& out, bool count_pad,
             std::optional<int64_t> divisor) {
  TORCH_CHECK(!divisor.has_value() || *divisor != 0, "avg_pool: divisor_override must not be zero");
  const bool forward = direction == AvgPoolDIRECTION::forward;
  const PoolPlan plan = plan_of(w, forward ? PoolPass::avg_forward : PoolPass::avg_backward, in);
  if (plan.at_once) {
    launch_avg(w, forward, in, out, count_pad, divisor);
  } else if (forward) {
    long_avg_forward(w, plan, in, out, count_pad, divisor);
  } else {
    long_avg_backward(w, plan, in, out, count_pad, divisor);
  }
}

void max_forward(const Window& w, const at::Tensor& self, const at::Tensor& out, const at::Tensor& indices) {
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) {
    into(indices, [&](const at::Tensor& i) {
      const PoolPlan plan = plan_of(w, PoolPass::max_forward, x);
      plan.at_once ? launch_max_forward(w, x, o, i) : long_max_forward(w, plan, x, o, i);
    });
  });
}
void max_gradient(const Window& w, const at::Tensor& grad_output, const at::Tensor& indices,
                  const at::Tensor& grad_input) {
  const at::Tensor g = grad_output.contiguous(), i = indices.contiguous();
  if (g.numel() == 0) {
    grad_input.zero_();
    return;
  }
  into(grad_input, [&](const at::Tensor& o) {
    plan_of(w, PoolPass::max_backward, g).at_once ? launch_max_backward(w, g, o, i) : long_max_backward(w, g, o, i);
  });
}

}  // namespace

template <int dims>
std::tuple<at::Tensor&, at::Tensor&> Pool<dims>::max_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                         at::IntArrayRef stride, at::IntArrayRef padding,
                                                         at::IntArrayRef dilation, bool ceil_mode, at::Tensor& out,
                                                         at::Tensor& indices) {
  check_input("max_pool", self, dims, Integers::all);
  const Window w = fixed_window("max_pool", self, dims, kernel, stride, padding, dilation, ceil_mode);
  at::native::resize_output(out, out_shape(self, dims, w));
  at::native::resize_output(indices, out_shape(self, dims, w));
  max_forward(w, self, out, indices);
  return {out, indices};
}
template <int dims>
std::tuple<at::Tensor, at::Tensor> Pool<dims>::max(const at::Tensor& self, at::IntArrayRef kernel,
                                                   at::IntArrayRef stride, at::IntArrayRef padding,
                                                   at::IntArrayRef dilation, bool ceil_mode) {
  at::Tensor out = at::empty({0}, self.options()), indices = at::empty({0}, self.options().dtype(at::kLong));
  max_out(self, kernel, stride, padding, dilation, ceil_mode, out, indices);
  return {out, indices};
}
template <int dims>
at::Tensor& Pool<dims>::max_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                         bool ceil_mode, const at::Tensor& indices, at::Tensor& grad_input) {
  check_input("max_pool_backward", self, dims);
  const Window w = fixed_window("max_pool_backward", self, dims, kernel, stride, padding, dilation, ceil_mode);
  at::native::resize_output(grad_input, self.sizes());
  max_gradient(w, grad_output, indices, grad_input);
  return grad_input;
}
template <int dims>
at::Tensor Pool<dims>::max_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                    bool ceil_mode, const at::Tensor& indices) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return max_backward_out(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices, grad_input);
}
template <int dims>
at::Tensor& Pool<dims>::avg_out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                std::optional<int64_t> divisor, at::Tensor& out) {
  check_input("avg_pool", self, dims, Integers::int64);
  const Window w = fixed_window("avg_pool", self, dims, kernel, stride, padding, {1}, ceil_mode);
  at::native::resize_output(out, out_shape(self, dims, w));
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) { run_avg(w, AvgPoolDIRECTION::forward, x, o, count_include_pad, divisor); });
  return out;
}
template <int dims>
at::Tensor& Pool<dims>::avg_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                         at::IntArrayRef stride, at::IntArrayRef padding, bool ceil_mode,
                                         bool count_include_pad, std::optional<int64_t> divisor,
                                         at::Tensor& grad_input) {
  check_input("avg_pool_backward", self, dims, Integers::int64);
  const Window w = fixed_window("avg_pool_backward", self, dims, kernel, stride, padding, {1}, ceil_mode);
  at::native::resize_output(grad_input, self.sizes());
  const at::Tensor g = grad_output.contiguous();
  into(grad_input,
       [&](const at::Tensor& o) { run_avg(w, AvgPoolDIRECTION::backward, g, o, count_include_pad, divisor); });
  return grad_input;
}
template <int dims>
at::Tensor& Pool<dims>::adaptive_avg_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  check_input("adaptive_avg_pool", self, dims);
  const Window w = adaptive_window("adaptive_avg_pool", self, dims, output_size);
  at::native::resize_output(out, out_shape(self, dims, w));
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) { run_avg(w, AvgPoolDIRECTION::forward, x, o, false, std::nullopt); });
  return out;
}
template <int dims>
at::Tensor Pool<dims>::adaptive_avg(const at::Tensor& self, at::IntArrayRef output_size) {
  check_input("adaptive_avg_pool", self, dims);
  const Window w = adaptive_window("adaptive_avg_pool", self, dims, output_size);
  at::Tensor out = at::empty(out_shape(self, dims, w), self.options(), adaptive_format(self, dims));
  return adaptive_avg_out(self, output_size, out);
}
template <int dims>
at::Tensor Pool<dims>::adaptive_avg_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_input("adaptive_avg_pool_backward", self, dims);
  const Window w = adaptive_window("adaptive_avg_pool_backward", self, dims,
                                   grad_output.sizes().slice(static_cast<size_t>(grad_output.dim() - dims)));
  at::Tensor grad_input = at::empty(self.sizes(), self.options(), adaptive_format(self, dims));
  const at::Tensor g = grad_output.contiguous();
  if (g.numel() == 0) return grad_input.zero_();
  into(grad_input, [&](const at::Tensor& o) { run_avg(w, AvgPoolDIRECTION::backward, g, o, false, std::nullopt); });
  return grad_input;
}
template <int dims>
std::tuple<at::Tensor&, at::Tensor&> Pool<dims>::adaptive_max_out(const at::Tensor& self, at::IntArrayRef output_size,
                                                                  at::Tensor& out, at::Tensor& indices) {
  check_input("adaptive_max_pool", self, dims);
  const Window w = adaptive_window("adaptive_max_pool", self, dims, output_size);
  at::native::resize_output(out, out_shape(self, dims, w));
  at::native::resize_output(indices, out_shape(self, dims, w));
  max_forward(w, self, out, indices);
  return {out, indices};
}
template <int dims>
at::Tensor& Pool<dims>::adaptive_max_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                  const at::Tensor& indices, at::Tensor& grad_input) {
  check_input("adaptive_max_pool_backward", self, dims);
  const Window w = adaptive_window("adaptive_max_pool_backward", self, dims,
                                   grad_output.sizes().slice(static_cast<size_t>(grad_output.dim() - dims)));
  at::native::resize_output(grad_input, self.sizes());
  max_gradient(w, grad_output, indices, grad_input);
  return grad_input;
}

template struct Pool<2>;
template struct Pool<3>;

}  // namespace aule::ops
