// Deformable convolution: columns that are read at learned offsets, and a matrix product for each block of images.
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kernels_detection.gen.h"
#include "ops/detection/detection.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/scattered_sum.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Pair {
  int64_t y, x;
  void fill(int32_t (&to)[2]) const {
    to[0] = static_cast<int32_t>(y);
    to[1] = static_cast<int32_t>(x);
  }
};

struct Deformed {
  const char* op;
  at::Tensor input, weight, offset, mask;  // contiguous; mask undefined: none
  Pair stride, pad, dilation;
  int64_t groups, offset_groups;

  int64_t images() const { return input.size(0); }
  int64_t channels() const { return input.size(1); }
  int64_t outputs() const { return weight.size(0); }
  Pair size() const { return {input.size(2), input.size(3)}; }
  Pair kernel() const { return {weight.size(2), weight.size(3)}; }
  int64_t taps() const { return weight.size(2) * weight.size(3); }
  Pair out() const {
    const auto along = [](int64_t n, int64_t k, int64_t stride, int64_t pad, int64_t dilation) {
      return (n + 2 * pad - (dilation * (k - 1) + 1)) / stride + 1;
    };
    return {along(size().y, kernel().y, stride.y, pad.y, dilation.y),
            along(size().x, kernel().x, stride.x, pad.x, dilation.x)};
  }
  int64_t area() const { return out().y * out().x; }

  // Images `first` to `first + count` alone.
  Deformed narrowed(int64_t first, int64_t count) const {
    Deformed d = *this;
    d.input = input.narrow(0, first, count);
    d.offset = offset.narrow(0, first, count);
    if (mask.defined()) d.mask = mask.narrow(0, first, count);
    return d;
  }
  template <class Params>
  void fill(Params& p, TensorArgs& args) const {
    p.in_ = args.read(input);
    p.offset = args.read(offset);
    if (mask.defined()) p.mask = args.read(mask);
    size().fill(p.size);
    out().fill(p.out_size);
    kernel().fill(p.kernel);
    stride.fill(p.stride);
    pad.fill(p.pad);
    dilation.fill(p.dilation);
    p.channels = static_cast<uint32_t>(channels());
    p.offset_groups = static_cast<uint32_t>(offset_groups);
  }
};

void check(const Deformed& d, const at::Tensor& bias) {
  TORCH_CHECK(d.input.dim() == 4 && d.weight.dim() == 4 && d.offset.dim() == 4, d.op,
              ": expected input, weight and offset of four dimensions, got ", d.input.sizes(), ", ", d.weight.sizes(),
              " and ", d.offset.sizes());
  check_floating(d.op, d.input);
  check_float64(d.op, d.input);
  check_same_device(d.op, {&d.input, &d.weight, &d.offset, &d.mask, &bias});
  for (const at::Tensor* t : {&d.weight, &d.offset, &d.mask, &bias})
    TORCH_CHECK(!t->defined() || t->scalar_type() == d.input.scalar_type(), d.op,
                ": expected tensors of one dtype, got ", d.input.scalar_type(), " and ", t->scalar_type());
  TORCH_CHECK(d.stride.y > 0 && d.stride.x > 0 && d.dilation.y > 0 && d.dilation.x > 0 && d.pad.y >= 0 && d.pad.x >= 0,
              d.op, ": expected strides and dilations above 0, and paddings of 0 or more");
  TORCH_CHECK(d.taps() > 0 && d.groups > 0 && d.offset_groups > 0 && d.channels() % d.groups == 0 &&
                  d.channels() % d.offset_groups == 0 && d.outputs() % d.groups == 0,
              d.op, ": ", d.groups, " groups and ", d.offset_groups, " groups of offsets do not divide ", d.channels(),
              " channels and ", d.outputs(), " outputs");
  TORCH_CHECK(d.weight.size(1) * d.groups == d.channels(), d.op, ": expected a weight of ", d.channels() / d.groups,
              " channels, got ", d.weight.sizes());
  const auto [y, x] = d.out();
  TORCH_CHECK(y > 0 && x > 0, d.op, ": the result would have the size ", y, " x ", x);
  const std::array<int64_t, 4> offsets{d.images(), 2 * d.offset_groups * d.taps(), y, x};
  TORCH_CHECK(d.offset.sizes() == at::IntArrayRef(offsets), d.op, ": expected offsets of shape ",
              at::IntArrayRef(offsets), ", got ", d.offset.sizes());
  const std::array<int64_t, 4> masks{d.images(), d.offset_groups * d.taps(), y, x};
  TORCH_CHECK(!d.mask.defined() || d.mask.sizes() == at::IntArrayRef(masks), d.op, ": expected a mask of shape ",
              at::IntArrayRef(masks), ", got ", d.mask.sizes());
  constexpr int64_t kMost = 1 << 24;
  TORCH_CHECK_NOT_IMPLEMENTED(d.size().y < kMost && d.size().x < kMost && y < kMost && x < kMost &&
                                  d.size().y * d.size().x < (int64_t{1} << 31) &&
                                  d.area() * d.taps() < (int64_t{1} << 31),
                              d.op, ": sizes of 2^24 or planes of 2^31 are too large");
}

Deformed deformed(const char* op, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                  const at::Tensor& mask, const at::Tensor& bias, Pair stride, Pair pad, Pair dilation, int64_t groups,
                  int64_t offset_groups, bool use_mask) {
  const Deformed d{op,
                   input.contiguous(),
                   weight.contiguous(),
                   offset.contiguous(),
                   use_mask ? mask.contiguous() : at::Tensor(),
                   stride,
                   pad,
                   dilation,
                   groups,
                   offset_groups};
  check(d, bias);
  return d;
}

// Columns [images, channels * taps, area].
at::Tensor columns_of(const Deformed& d) {
  const at::Tensor columns = at::empty({d.images(), d.channels() * d.taps(), d.area()}, d.input.options());
  const DType dtype = dtype_of(d.input, d.op);
  TensorArgs args;
  DeformColumnsParams p{};
  d.fill(p, args);
  p.columns = args.write(columns);
  p.n = static_cast<uint64_t>(columns.numel());
  launch(current(d.input), kernel::deform_columns(compute_type(dtype)), {.dtype = dtype, .masked = d.mask.defined()}, p,
         args, linear_grid(ceil_div(p.n, DeformColumnsParams::kLocal)));
  return columns;
}

// Images whose columns, and their gradient, are there at once.
int64_t images_at_once(const Deformed& d) {
  constexpr int64_t kMostBytes = int64_t{256} << 20;
  const int64_t bytes = d.channels() * d.taps() * d.area() * static_cast<int64_t>(d.input.element_size());
  return std::clamp<int64_t>(kMostBytes / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(d.images(), 1));
}

// Group g of `groups` along dimension 1.
at::Tensor group_of(const at::Tensor& t, int64_t groups, int64_t g) {
  const int64_t each = t.size(1) / groups;
  return t.narrow(1, g * each, each);
}
// Weights of group g as a matrix [outputs, channels * taps], for each of `images`.
at::Tensor matrix_of(const Deformed& d, int64_t g, int64_t images) {
  const int64_t rows = d.outputs() / d.groups, columns = d.channels() / d.groups * d.taps();
  return d.weight.view({d.groups, rows, columns}).narrow(0, g, 1).expand({images, rows, columns});
}

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

struct Grads {
  at::Tensor input, offset, mask;  // of the input in the arithmetic type, and zeros
};

void launch_backward(const Deformed& d, const at::Tensor& columns, const Grads& g, bool input, bool offset,
                     bool ordered, uint64_t first, uint64_t last) {
  const DType dtype = dtype_of(d.input, d.op), compute = compute_type(dtype);
  TensorArgs args;
  DeformColumnsBackwardParams p{};
  d.fill(p, args);
  p.grad_columns = args.read(columns);
  if (input) p.grad_in = args.read_write(g.input);
  if (offset) p.grad_offset = args.write(g.offset);
  if (offset && d.mask.defined()) p.grad_mask = args.write(g.mask);
  p.first = static_cast<uint32_t>(first);
  p.last = static_cast<uint32_t>(last);
  p.n = static_cast<uint64_t>(ordered ? d.images() * d.channels() : d.images() * d.offset_groups * d.taps() * d.area());
  launch(current(d.input),
         kernel::deform_columns_backward(
             compute, adds_natively(d.input) ? DeformColumnsBackwardADD::native : DeformColumnsBackwardADD::cas),
         {.dtype = dtype, .masked = d.mask.defined(), .wants_input = input, .wants_offset = offset, .ordered = ordered},
         p, args, linear_grid(ceil_div(p.n, DeformColumnsBackwardParams::kLocal)));
}

void columns_backward(const Deformed& d, const at::Tensor& columns, const Grads& g) {
  const Caps& caps = caps_of(d.input);
  const bool ordered = sums_in_order(d.input);
  check_walk(d.op, caps, static_cast<uint64_t>(d.channels() / d.offset_groups * 9 + 4));
  launch_backward(d, columns, g, !ordered, true, false, 0, 0);
  const auto cells = static_cast<uint64_t>(d.taps() * d.area());
  constexpr uint64_t kIterations = 9;  // of a cell: its corners
  const uint64_t step = std::max<uint64_t>(1, longest_walk(caps) / kIterations);
  for (uint64_t first = 0; ordered && first < cells;) {
    const uint64_t last = first + std::min(step, cells - first);
    launch_backward(d, columns, g, true, false, true, first, last);
    first = last;
  }
}

}  // namespace

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, int64_t stride_h, int64_t stride_w,
                         int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w, int64_t groups,
                         int64_t offset_groups, bool use_mask) {
  const Deformed d = deformed("deform_conv2d", input, weight, offset, mask, bias, {stride_h, stride_w}, {pad_h, pad_w},
                              {dilation_h, dilation_w}, groups, offset_groups, use_mask);
  const auto [y, x] = d.out();
  if (d.images() == 0 || d.channels() == 0 || d.outputs() == 0)
    return at::zeros({d.images(), d.outputs(), y, x}, input.options()) + bias.view({1, -1, 1, 1});
  std::vector<at::Tensor> blocks;
  const int64_t step = images_at_once(d);
  for (int64_t first = 0; first < d.images(); first += step) {
    const int64_t count = std::min(step, d.images() - first);
    const at::Tensor columns = columns_of(d.narrowed(first, count));
    std::vector<at::Tensor> parts;
    for (int64_t g = 0; g < groups; ++g) parts.push_back(at::bmm(matrix_of(d, g, count), group_of(columns, groups, g)));
    blocks.push_back(joined(parts, 1));
  }
  return joined(blocks, 0).view({d.images(), d.outputs(), y, x}) + bias.view({1, -1, 1, 1});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> deform_conv2d_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
    const at::Tensor& mask, const at::Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
    int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Deformed d = deformed("deform_conv2d_backward", input, weight, offset, mask, bias, {stride_h, stride_w},
                              {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups, use_mask);
  const auto [y, x] = d.out();
  const std::array<int64_t, 4> expected{d.images(), d.outputs(), y, x};
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(expected), d.op, ": expected a gradient of shape ",
              at::IntArrayRef(expected), ", got ", grad.sizes());
  const at::Tensor sums = at::zeros(input.sizes(), input.options().dtype(sum_type_of(input)));
  const at::Tensor of_offset = at::zeros_like(d.offset), of_mask = at::zeros_like(mask);
  at::Tensor of_weight = at::zeros_like(d.weight), of_bias = grad.sum({0, 2, 3}).view(bias.sizes());
  if (d.images() == 0 || d.channels() == 0 || d.outputs() == 0)
    return {sums.to(input.scalar_type()), of_weight, of_offset, of_mask, of_bias};
  const at::Tensor g3 = grad.contiguous().view({d.images(), d.outputs(), d.area()});
  const int64_t step = images_at_once(d);
  for (int64_t first = 0; first < d.images(); first += step) {
    const int64_t count = std::min(step, d.images() - first);
    const Deformed block = d.narrowed(first, count);
    const at::Tensor columns = columns_of(block), of_out = g3.narrow(0, first, count);
    std::vector<at::Tensor> weights, parts;
    for (int64_t g = 0; g < groups; ++g) {
      const at::Tensor own = group_of(of_out, groups, g);
      parts.push_back(at::bmm(matrix_of(d, g, count).transpose(1, 2), own));
      weights.push_back(at::bmm(own, group_of(columns, groups, g).transpose(1, 2)).sum(0));
    }
    of_weight += joined(weights, 0).view(weight.sizes());
    columns_backward(block, joined(parts, 1),
                     {sums.narrow(0, first, count), of_offset.narrow(0, first, count),
                      use_mask ? of_mask.narrow(0, first, count) : at::Tensor()});
  }
  return {sums.to(input.scalar_type()), of_weight, of_offset, of_mask, of_bias};
}

}  // namespace aule::ops
