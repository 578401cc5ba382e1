#include "ops/resample/resample.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>

#include "kernels_resample.gen.h"
#include "ops/tensor/complex_parts.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

bool is_nearest(Interpolation mode) { return mode == Interpolation::nearest || mode == Interpolation::nearest_exact; }

// Nearest elements of bytes are copies; what is between bytes the CPU rounds in ways of its own.
void check_dtype(const char* op, Interpolation mode, const at::Tensor& t) {
  const bool is_copy = t.scalar_type() == at::kByte && is_nearest(mode);
  TORCH_CHECK_NOT_IMPLEMENTED((t.is_floating_point() && has_dtype(t.scalar_type())) || is_copy, op, ": dtype ",
                              t.scalar_type(), " has no kernel on device aule");
  check_float64(op, t);
}

template <class Array>
void put_spatial(Array& to, at::IntArrayRef sizes, int64_t dims) {
  using Size = std::remove_reference_t<decltype(to[0])>;
  for (int64_t d = 0; d < 3; ++d)
    to[d] = d < 3 - dims ? 1 : static_cast<Size>(sizes[sizes.size() - static_cast<size_t>(3 - d)]);
}

// Real: in the type that the kernel computes in.
template <class Real>
Real step_of(Interpolation mode, int64_t in, int64_t out, bool align_corners, const Scale& scale) {
  if (!is_nearest(mode) && align_corners)
    return out > 1 ? static_cast<Real>(in - 1) / static_cast<Real>(out - 1) : Real{0};
  if (scale.has_value() && *scale > 0) return static_cast<Real>(1.0 / *scale);
  return static_cast<Real>(in) / static_cast<Real>(out);
}

struct Resampling {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1};
  std::array<double, 3> step{1, 1, 1};  // of the input, per step of the output
};

Resampling resampling(Interpolation mode, bool align_corners, std::initializer_list<Scale> scales, bool in_double,
                      at::IntArrayRef in_size, at::IntArrayRef out_size) {
  const auto dims = static_cast<int64_t>(scales.size());
  Resampling r;
  put_spatial(r.in, in_size, dims);
  put_spatial(r.out, out_size, dims);
  for (int64_t d = 3 - dims; d < 3; ++d) {
    const Scale& scale = scales.begin()[d - (3 - dims)];
    r.step[d] = in_double ? step_of<double>(mode, r.in[d], r.out[d], align_corners, scale)
                          : double{step_of<float>(mode, r.in[d], r.out[d], align_corners, scale)};
  }
  return r;
}

void launch_upsample(UpsampleDIRECTION direction, Interpolation mode, bool align_corners, const Resampling& r,
                     const at::Tensor& in, const at::Tensor& out) {
  const DType dtype = dtype_of(in, "upsample"), compute = compute_type(dtype);
  UpsampleParams p{};
  TensorArgs args;
  p.in_ = args.read(in);
  p.out_ = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  for (size_t d = 0; d < 3; ++d) {
    p.in_size[d] = static_cast<int32_t>(r.in[d]);
    p.out_size[d] = static_cast<int32_t>(r.out[d]);
    p.scale_bits[d] = real_bits(compute, r.step[d]);
  }
  launch(current(in), kernel::upsample(direction, compute),
         {.dtype = dtype, .mode = static_cast<int>(mode), .align_corners = align_corners}, p, args,
         linear_grid(ceil_div(p.n, UpsampleParams::kLocal)));
}

// Outputs along an axis that the backward kernel looks at for a cell, at most: one at an end or in the middle.
uint64_t outputs_of_cell(Interpolation mode, const Resampling& r, size_t axis) {
  const auto in = static_cast<double>(r.in[axis]), out = static_cast<double>(r.out[axis]), step = r.step[axis];
  if (step <= 0) return static_cast<uint64_t>(out);
  const double reach = mode == Interpolation::linear ? 2 : mode == Interpolation::cubic ? 3 : 1;
  const double at_end = out - std::max(std::floor((in - 1 - reach) / step) - 1, 0.0);
  return static_cast<uint64_t>(std::min(out, std::max(std::ceil(2 * reach / step) + 5, at_end)));
}

enum class BackwardRoute { at_once, by_axis };
// Pure. Nothing where too many outputs look at one cell.
std::optional<BackwardRoute> backward_route(const Caps& caps, Interpolation mode, const Resampling& r) {
  const uint64_t z = outputs_of_cell(mode, r, 0), y = outputs_of_cell(mode, r, 1), x = outputs_of_cell(mode, r, 2);
  if (may_walk(caps, z * (1 + y * (1 + x)))) return BackwardRoute::at_once;
  for (size_t axis = 0; axis < 3; ++axis) {
    const bool unchanged = r.in[axis] == 1 && r.out[axis] == 1;
    if (!unchanged && !may_walk(caps, 2 + outputs_of_cell(mode, r, axis))) return {};
  }
  return BackwardRoute::by_axis;
}

void run_backward(Interpolation mode, bool align_corners, const Resampling& r, const at::Tensor& grad,
                  const at::Tensor& grad_input) {
  const Caps& caps = caps_of(grad);
  const auto route = backward_route(caps, mode, r);
  TORCH_CHECK_NOT_IMPLEMENTED(
      route.has_value(), "upsample_backward: too many outputs look at one cell for one loop: ", loop_limit_text(caps));
  if (*route == BackwardRoute::at_once) {
    launch_upsample(UpsampleDIRECTION::backward, mode, align_corners, r, grad, grad_input);
    return;
  }
  // One axis after another: the weights are products.
  const int64_t planes = grad.size(0) * grad.size(1);
  at::Tensor g = grad.view({planes, r.out[0], r.out[1], r.out[2]}).to(sum_type_of(grad));
  for (size_t axis = 0; axis < 3; ++axis) {
    if (r.in[axis] == 1 && r.out[axis] == 1) continue;
    const auto dim = static_cast<int64_t>(axis) + 1;
    const at::Tensor last = g.movedim(dim, -1).contiguous();
    std::vector<int64_t> shape = last.sizes().vec();
    shape.back() = r.in[axis];
    const at::Tensor part = at::empty(shape, last.options());
    const Resampling line{{1, 1, r.in[axis]}, {1, 1, r.out[axis]}, {1, 1, r.step[axis]}};
    launch_upsample(UpsampleDIRECTION::backward, mode, align_corners, line, last, part);
    g = part.movedim(-1, dim);
  }
  grad_input.view(g.sizes()).copy_(g);
}

}  // namespace

void upsample(Interpolation mode, const at::Tensor& self, at::IntArrayRef output_size, bool align_corners,
              std::initializer_list<Scale> scales, const at::Tensor& out) {
  check_dtype("upsample", mode, self);
  std::vector<int64_t> shape{self.size(0), self.size(1)};
  shape.insert(shape.end(), output_size.begin(), output_size.end());
  TORCH_CHECK(self.dim() == static_cast<int64_t>(scales.size()) + 2 && output_size.size() == scales.size(),
              "upsample: expected an input of ", scales.size() + 2, " dimensions and ", scales.size(),
              " output sizes, got ", self.sizes(), " and ", output_size);
  at::native::resize_output(out, shape);
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) {
    launch_upsample(UpsampleDIRECTION::forward, mode, align_corners,
                    resampling(mode, align_corners, scales, x.scalar_type() == at::kDouble, x.sizes(), o.sizes()), x,
                    o);
  });
}

void upsample_backward(Interpolation mode, const at::Tensor& grad_output, at::IntArrayRef, at::IntArrayRef input_size,
                       bool align_corners, std::initializer_list<Scale> scales, const at::Tensor& grad_input) {
  check_dtype("upsample_backward", mode, grad_output);
  at::native::resize_output(grad_input, input_size);
  const at::Tensor g = grad_output.contiguous();
  into(grad_input, [&](const at::Tensor& o) {
    const bool in_double = g.scalar_type() == at::kDouble;
    run_backward(mode, align_corners, resampling(mode, align_corners, scales, in_double, o.sizes(), g.sizes()), g, o);
  });
}

namespace {

void run_pad(EdgePadDIRECTION direction, EdgePad mode, int dims, at::IntArrayRef padding, at::IntArrayRef in_size,
             at::IntArrayRef out_size, const at::Tensor& in, const at::Tensor& out) {
  EdgePadParams p{};
  TensorArgs args;
  p.in_ = args.read(in);
  p.out_ = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  put_spatial(p.in_size, in_size, dims);
  put_spatial(p.out_size, out_size, dims);
  for (int d = 0; d < dims; ++d)
    p.pad[2 - d] = static_cast<int32_t>(padding[static_cast<size_t>(2 * d)]);  // padding lists the last axis first
  uint64_t walk = 0;  // iterations of an edge cell's three nested loops, the last axis innermost
  for (size_t d = 3; d-- > 0;) {
    const int edge = std::max({p.pad[d], p.out_size[d] - p.in_size[d] - p.pad[d], 0});
    const int outputs = mode == EdgePad::reflection ? 3 : p.in_size[d] == 1 ? p.out_size[d] : 2 + edge;
    walk = static_cast<uint64_t>(outputs) * (1 + walk);
  }
  if (direction == EdgePadDIRECTION::backward) check_walk("pad_backward", caps_of(out), walk);
  const DType dtype = direction == EdgePadDIRECTION::forward ? raw_dtype_of(in) : dtype_of(in, "pad_backward");
  const bool in_double = direction == EdgePadDIRECTION::backward && dtype == DType::f64;
  launch(current(in), kernel::edge_pad(direction, in_double ? DType::f64 : DType::f32),
         {.dtype = dtype, .reflect = mode == EdgePad::reflection}, p, args,
         linear_grid(ceil_div(p.n, EdgePadParams::kLocal)));
}

}  // namespace

void edge_pad(EdgePad mode, int dims, const at::Tensor& self, at::IntArrayRef padding, const at::Tensor& out) {
  const char* op = mode == EdgePad::reflection ? "reflection_pad" : "replication_pad";
  TORCH_CHECK(padding.size() == static_cast<size_t>(2 * dims), op, dims, "d: expected ", 2 * dims,
              " padding values, got ", padding);
  TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, op, dims, "d: expected a ", dims + 1, "-D or ",
              dims + 2, "-D tensor, got shape ", self.sizes());
  std::vector<int64_t> shape = self.sizes().vec();
  for (int d = 0; d < dims; ++d) {
    const int64_t size = self.size(-1 - d), before = padding[static_cast<size_t>(2 * d)],
                  after = padding[static_cast<size_t>(2 * d + 1)];
    TORCH_CHECK(size > 0, op, dims, "d: expected non-zero spatial sizes, got shape ", self.sizes());
    TORCH_CHECK(mode == EdgePad::replication || (before < size && after < size), op, dims, "d: padding ", padding,
                " must be less than the input's size in each dimension, got shape ", self.sizes());
    shape[shape.size() - 1 - static_cast<size_t>(d)] = size + before + after;
    TORCH_CHECK(size + before + after >= 1, op, dims, "d: the output would be empty for input of shape ", self.sizes(),
                " and padding ", padding);
  }
  at::native::resize_output(out, shape);
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) {
    run_pad(EdgePadDIRECTION::forward, mode, dims, padding, x.sizes(), o.sizes(), x, o);
  });
}

void edge_pad_backward(EdgePad mode, int dims, const at::Tensor& grad_output, const at::Tensor& self,
                       at::IntArrayRef padding, const at::Tensor& grad_input) {
  const at::ScalarType real = c10::toRealValueType(grad_output.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(real) && (real != at::kDouble || profile_of(grad_output).float64),
                              "pad_backward: dtype ", grad_output.scalar_type(), " has no kernel on this device");
  at::native::resize_output(grad_input, self.sizes());
  if (grad_output.is_complex()) {
    grad_input.copy_(of_both_parts(grad_output, [&](const at::Tensor& g) {
      const at::Tensor part = at::empty(self.sizes(), g.options());
      edge_pad_backward(mode, dims, g, self, padding, part);
      return part;
    }));
    return;
  }
  const at::Tensor g = grad_output.contiguous();
  into(grad_input, [&](const at::Tensor& o) {
    run_pad(EdgePadDIRECTION::backward, mode, dims, padding, o.sizes(), g.sizes(), g, o);
  });
}

}  // namespace aule::ops
