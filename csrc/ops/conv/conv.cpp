#include "ops/conv/conv.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_conv.gen.h"
#include "ops/conv/implicit_gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr uint32_t kLocal = 64;
constexpr int64_t kColumnsBytes = 256 << 20;  // images are taken in chunks whose columns fit

// Spatial extents as three, with 1 in front of 1-D and 2-D ones.
using Extent = ConvGeometry::Extent;
Extent extent(at::IntArrayRef values, int64_t spatial, int32_t fill) {
  Extent e{fill, fill, fill};
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t v = values[values.size() == 1 ? 0 : static_cast<size_t>(d)];
    TORCH_CHECK(v >= INT32_MIN && v <= INT32_MAX, "convolution: ", v, " does not fit 32 bits");
    e[static_cast<size_t>(3 - spatial + d)] = static_cast<int32_t>(v);
  }
  return e;
}
template <class Array>
void put(Array& to, const Extent& from) {
  std::copy(from.begin(), from.end(), to);
}
int64_t volume(const Extent& e) { return int64_t{e[0]} * e[1] * e[2]; }

struct Geometry : ConvGeometry {
  int64_t positions() const { return volume(out_size); }
  int64_t taps() const { return volume(kernel); }
  // A 1x1 kernel that touches every pixel once: the image is its own columns.
  bool is_identity() const {
    return taps() == 1 && size == out_size && stride == Extent{1, 1, 1} && pad == Extent{0, 0, 0};
  }
};

template <class Params>
void put(Params& p, const Geometry& g) {
  put(p.size, g.size);
  put(p.out_size, g.out_size);
  put(p.kernel, g.kernel);
  put(p.stride, g.stride);
  put(p.pad, g.pad);
  put(p.dilation, g.dilation);
}

// Iterations of loops over `e`, one in the other.
uint64_t nested(const Extent& e) {
  return static_cast<uint64_t>(e[0]) * (1 + static_cast<uint64_t>(e[1]) * (1 + static_cast<uint64_t>(e[2])));
}
size_t longest(const Extent& e) { return static_cast<size_t>(std::max_element(e.begin(), e.end()) - e.begin()); }
// Of the taps of a side no more than there are windows lead from an element of the image into one.
uint64_t fold_walk(const ConvGeometry& g) {
  const auto hit = [&](size_t d) { return static_cast<uint64_t>(std::min(g.kernel[d], g.out_size[d])); };
  const auto all = [&](size_t d) { return static_cast<uint64_t>(g.kernel[d]); };
  return all(0) + hit(0) * (all(1) + hit(1) * all(2));
}
// The same windows with `count` taps of dimension `d` from `first` on.
Geometry with_taps(Geometry g, size_t d, int32_t first, int32_t count) {
  g.pad[d] -= first * g.dilation[d];
  g.kernel[d] = count;
  return g;
}

void run_unfold(const Geometry& g, const at::Tensor& image, const at::Tensor& columns, bool fold) {
  const at::Tensor& result = fold ? image : columns;
  if (result.numel() == 0) return;
  if (fold && g.taps() > 1 && !may_walk(caps_of(image), fold_walk(g))) {  // half of the taps, then the other half
    const size_t d = longest(g.kernel);
    const int32_t half = g.kernel[d] / 2, k = g.kernel[d];
    const auto by_tap = columns.view({image.size(0), image.size(1), g.kernel[0], g.kernel[1], g.kernel[2], -1});
    const auto dim = static_cast<int64_t>(d) + 2;
    const at::Tensor rest = at::empty_like(image);
    run_unfold(with_taps(g, d, 0, half), image, by_tap.narrow(dim, 0, half).contiguous(), fold);
    run_unfold(with_taps(g, d, half, k - half), rest, by_tap.narrow(dim, half, k - half).contiguous(), fold);
    image.add_(rest);
    return;
  }
  UnfoldColumnsParams p{};
  TensorArgs args;
  p.image = fold ? args.write(image) : args.read(image);
  p.columns = fold ? args.read(columns) : args.write(columns);
  p.n = static_cast<uint64_t>(result.numel());
  put(p, g);
  const DType dtype = fold ? dtype_of(image, "col2im") : raw_dtype_of(image);
  const DType sum = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto kernel =
      kernel::unfold_columns(fold ? UnfoldColumnsDIRECTION::col2im : UnfoldColumnsDIRECTION::im2col, sum);
  launch(current(image), kernel, {.dtype = dtype}, p, args, linear_grid(ceil_div(p.n, kLocal)));
}

void launch_direct(const Geometry& g, ConvDirectGRAD grad, const at::Tensor& x, const at::Tensor& w,
                   const at::Tensor& y, int64_t groups) {
  const at::Tensor& result = grad == ConvDirectGRAD::none ? y : grad == ConvDirectGRAD::input ? x : w;
  if (result.numel() == 0) return;
  ConvDirectParams p{};
  TensorArgs args;
  p.x = grad == ConvDirectGRAD::input ? args.write(x) : args.read(x);
  p.w = grad == ConvDirectGRAD::weight ? args.write(w) : args.read(w);
  p.y = grad == ConvDirectGRAD::none ? args.write(y) : args.read(y);
  p.n = static_cast<uint64_t>(result.numel());
  put(p, g);
  p.batch = static_cast<int32_t>(x.size(0));
  p.groups = static_cast<int32_t>(groups);
  p.ci = static_cast<int32_t>(x.size(1) / groups);
  p.co = static_cast<int32_t>(y.size(1) / groups);
  launch(current(x), kernel::conv_direct(grad), {.dtype = dtype_of(x, "convolution")}, p, args,
         linear_grid(ceil_div(p.n, kLocal)));
}

// Iterations of one invocation. What it sums over besides taps and positions are images, or channels of one group.
uint64_t direct_walk(const Geometry& g, ConvDirectGRAD grad, int64_t summed) {
  const auto n = static_cast<uint64_t>(summed), taps = static_cast<uint64_t>(g.taps());
  if (grad == ConvDirectGRAD::weight) return n * (nested(g.out_size) + 1);
  return grad == ConvDirectGRAD::none ? n * (taps + 1) : taps * (n + 4);
}

// Half of what is summed over, along its longest side, then the other half, until one invocation may walk it.
// All operands have three spatial dimensions, are contiguous and float32.
void add_halves(const Geometry& g, ConvDirectGRAD grad, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                int64_t groups) {
  const bool weight = grad == ConvDirectGRAD::weight, input = grad == ConvDirectGRAD::input;
  const at::Tensor& result = weight ? w : input ? x : y;
  const int64_t images = x.size(0), channels = (input ? y : x).size(1) / groups, summed = weight ? images : channels;
  const uint64_t walk = direct_walk(g, grad, summed);
  if (may_walk(caps_of(x), walk)) return launch_direct(g, grad, x, w, y, groups);
  const Extent& sides = weight ? g.out_size : g.kernel;
  const size_t d = longest(sides);
  const bool along_side = sides[d] > summed;
  const int64_t size = along_side ? sides[d] : summed;
  if (size == 1) check_walk("convolution", caps_of(x), walk);
  const auto add_part = [&](int64_t from, int64_t count, const at::Tensor& to) {
    const auto cut = [&](const at::Tensor& t, int64_t dim) { return t.narrow(dim, from, count).contiguous(); };
    const auto cut_channels = [&](const at::Tensor& t) {  // of every group
      const at::Tensor some = cut(t.view({images, groups, channels, t.size(2), t.size(3), t.size(4)}), 2);
      return some.view({images, groups * count, t.size(2), t.size(3), t.size(4)});
    };
    const auto dim = static_cast<int64_t>(d) + 2;
    if (weight && along_side) {
      Geometry part = g;
      part.out_size[d] = static_cast<int32_t>(count);
      part.pad[d] -= static_cast<int32_t>(from) * g.stride[d];
      return add_halves(part, grad, x, to, cut(y, dim), groups);
    }
    if (weight) return add_halves(g, grad, cut(x, 0), to, cut(y, 0), groups);
    if (along_side) {
      const Geometry part = with_taps(g, d, static_cast<int32_t>(from), static_cast<int32_t>(count));
      return add_halves(part, grad, input ? to : x, cut(w, dim), input ? y : to, groups);
    }
    if (!input) return add_halves(g, grad, cut_channels(x), cut(w, 1), to, groups);
    const at::Tensor rows = cut(w.view({groups, channels, -1}), 1);
    add_halves(g, grad, to, rows.view({groups * count, w.size(1), w.size(2), w.size(3), w.size(4)}), cut_channels(y),
               groups);
  };
  const at::Tensor rest = at::empty_like(result);
  add_part(0, size / 2, result);
  add_part(size / 2, size - size / 2, rest);
  result.add_(rest);
}

void run_direct(const Geometry& g, ConvDirectGRAD grad, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                int64_t groups) {
  const bool weight = grad == ConvDirectGRAD::weight, input = grad == ConvDirectGRAD::input;
  const int64_t summed = weight ? x.size(0) : (input ? y : x).size(1) / groups;
  if (may_walk(caps_of(x), direct_walk(g, grad, summed))) return launch_direct(g, grad, x, w, y, groups);
  const at::Tensor& result = weight ? w : input ? x : y;
  const auto wide = [&](const at::Tensor& t) {
    const at::Tensor full = t.dim() == 5 ? t : t.dim() == 4 ? t.unsqueeze(2) : t.unsqueeze(2).unsqueeze(2);
    if (t.scalar_type() == at::kFloat) return full;
    return t.is_same(result) ? at::empty(full.sizes(), t.options().dtype(at::kFloat)) : full.to(at::kFloat);
  };
  const at::Tensor wide_x = wide(x), wide_w = wide(w), wide_y = wide(y);
  add_halves(g, grad, wide_x, wide_w, wide_y, groups);
  if (result.scalar_type() != at::kFloat)
    result.copy_((weight ? wide_w : input ? wide_x : wide_y).view(result.sizes()));
}

// Images per chunk, so that a chunk's columns stay under kColumnsBytes.
int64_t chunk_of(const Geometry& g, const at::Tensor& x) {
  const int64_t bytes = x.size(1) * g.taps() * g.positions() * x.element_size();
  return std::max<int64_t>(1, std::min(x.size(0), kColumnsBytes / std::max<int64_t>(bytes, 1)));
}
at::Tensor columns_of(const Geometry& g, const at::Tensor& x) {
  if (g.is_identity()) return x.reshape({x.size(0), x.size(1), g.positions()});
  at::Tensor columns = at::empty({x.size(0), x.size(1) * g.taps(), g.positions()}, x.options());
  run_unfold(g, x, columns, /*fold=*/false);
  return columns;
}

// y[N, O, *] = x[N, C, *] * w[O, C/groups, *]: all contiguous; y of 16-bit operands may be float32, without groups.
void forward(const Geometry& g, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, int64_t groups) {
  if (y.numel() == 0) return;
  if (groups != 1) return run_direct(g, ConvDirectGRAD::none, x, w, y, groups);
  const at::Tensor matrix = w.reshape({1, w.size(0), -1});
  at::Tensor flat = y.view({y.size(0), y.size(1), g.positions()});
  for (int64_t at = 0, step = chunk_of(g, x); at < x.size(0); at += step) {
    const int64_t count = std::min(step, x.size(0) - at);
    at::Tensor part = flat.narrow(0, at, count);
    gemm("convolution", matrix.expand({count, -1, -1}), columns_of(g, x.narrow(0, at, count)), {}, 0, 1, part);
  }
}

// The columns of 16-bit operands are float32, so that their sums are rounded once; gx may then be float32 too.
void backward_input(const Geometry& g, const at::Tensor& gx, const at::Tensor& w, const at::Tensor& gy,
                    int64_t groups) {
  if (gx.numel() == 0) return;
  if (groups != 1) return run_direct(g, ConvDirectGRAD::input, gx, w, gy, groups);
  const at::Tensor matrix = w.reshape({1, w.size(0), -1}).transpose(1, 2);
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  for (int64_t at = 0, step = chunk_of(g, gx); at < gx.size(0); at += step) {
    const int64_t count = std::min(step, gx.size(0) - at);
    at::Tensor part = gx.narrow(0, at, count);
    const at::TensorOptions wide = gx.options().dtype(at::kFloat);
    const at::Tensor columns = at::empty({count, matrix.size(1), flat.size(2)}, wide);
    gemm("convolution", matrix.expand({count, -1, -1}), flat.narrow(0, at, count), {}, 0, 1, columns);
    if (g.is_identity()) {
      part.view(columns.sizes()).copy_(columns);
    } else {
      const at::Tensor image = part.scalar_type() == at::kFloat ? part : at::empty(part.sizes(), wide);
      run_unfold(g, image, columns, /*fold=*/true);
      if (!image.is_same(part)) part.copy_(image);
    }
  }
}

at::Tensor backward_weight(const Geometry& g, const at::Tensor& x, at::IntArrayRef weight_size, const at::Tensor& gy,
                           int64_t groups) {
  at::Tensor gw = at::empty(weight_size, x.options());
  if (gw.numel() == 0) return gw;
  if (x.numel() == 0 || gy.numel() == 0) return gw.zero_();
  if (groups != 1) {
    run_direct(g, ConvDirectGRAD::weight, x, gw, gy, groups);
    return gw;
  }
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  // Images are summed in float32 whatever the dtype.
  at::Tensor sum;
  for (int64_t at = 0, step = chunk_of(g, x); at < x.size(0); at += step) {
    const int64_t count = std::min(step, x.size(0) - at);
    const at::Tensor columns = columns_of(g, x.narrow(0, at, count));
    const at::Tensor part =
        at::bmm(flat.narrow(0, at, count), columns.transpose(1, 2)).sum(at::IntArrayRef{0}, false, at::kFloat);
    sum = sum.defined() ? sum.add_(part) : part;
  }
  return gw.copy_(sum.view(weight_size));
}

bool in_tiles(const ConvGeometry& g, const at::Tensor& x, int64_t out_channels, int64_t groups) {
  return implicit_gemm_serves(g, x, x.size(1), out_channels, groups);
}
at::Tensor sum_of_channels(const at::Tensor& gy) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < gy.dim(); ++d) dims.push_back(d);
  return gy.sum(dims);
}

void check_inputs(const char* op, const at::Tensor& input, const at::Tensor& weight) {
  check_same_device(op, {&input, &weight});
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), op, ": expected input and weight of one dtype, got ",
              input.scalar_type(), " and ", weight.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(
      input.scalar_type() == at::kFloat || input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16, op,
      ": dtype ", input.scalar_type(), " has no kernel on device aule (float32, float16 and bfloat16 have)");
  TORCH_CHECK_NOT_IMPLEMENTED(input.dim() >= 3 && input.dim() <= 5, op,
                              ": expected 1 to 3 spatial dimensions, got input of shape ", input.sizes());
}

// How results lie, as on PyTorch's own devices; torch_aule/_ops/convolution.py tells the compiler.
at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& w) {
  const auto last = at::MemoryFormat::ChannelsLast;
  return x.suggest_memory_format() == last || w.suggest_memory_format() == last ? last : at::MemoryFormat::Contiguous;
}

// Sliding windows over a plane of this size, of im2col and col2im.
Geometry window_geometry(at::IntArrayRef size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                         at::IntArrayRef padding, at::IntArrayRef stride) {
  Geometry g{{extent(size, 2, 1),
              {1, 1, 1},
              extent(kernel_size, 2, 1),
              extent(stride, 2, 1),
              extent(padding, 2, 0),
              extent(dilation, 2, 1)}};
  for (size_t d = 0; d < 3; ++d)
    g.out_size[d] = (g.size[d] + 2 * g.pad[d] - g.dilation[d] * (g.kernel[d] - 1) - 1) / g.stride[d] + 1;
  return g;
}

}  // namespace

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups) {
  check_inputs("convolution", input, weight);
  const int64_t spatial = input.dim() - 2;
  const at::Tensor &x = input, &w = weight;
  const Extent kernel = extent(w.sizes().slice(2), spatial, 1), s = extent(stride, spatial, 1),
               pad = extent(padding, spatial, 0), dil = extent(dilation, spatial, 1),
               extra = extent(output_padding, spatial, 0), size = extent(x.sizes().slice(2), spatial, 1);
  Extent result{};
  std::vector<int64_t> shape{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
  for (size_t d = 0; d < 3; ++d) {
    const int32_t reach = dil[d] * (kernel[d] - 1);
    result[d] = transposed ? (size[d] - 1) * s[d] - 2 * pad[d] + reach + 1 + extra[d]
                           : (size[d] + 2 * pad[d] - reach - 1) / s[d] + 1;
    if (static_cast<int64_t>(d) >= 3 - spatial) shape.push_back(result[d]);
  }
  const Geometry g =
      transposed ? Geometry{{result, size, kernel, s, pad, dil}} : Geometry{{size, result, kernel, s, pad, dil}};
  const bool has_bias = bias.has_value() && bias->defined(),
             in_kernel = has_bias && bias->is_contiguous() && bias->scalar_type() == x.scalar_type();
  at::Tensor out;
  // A transposed convolution is the input gradient of the convolution that maps `out` to `x`.
  if (c10::multiply_integers(shape) != 0 && x.numel() != 0 && in_tiles(g, x, shape[1], groups)) {
    const at::Tensor added = in_kernel ? *bias : at::Tensor();
    out = transposed ? implicit_gemm_backward_input(g, w.contiguous(), x, added, groups)
                     : implicit_gemm_forward(g, x, w, added, groups);
    out = out.contiguous(format_of(x, w));
    if (in_kernel) return out;
  } else {
    // The bias is added before the result is rounded.
    out = at::empty(shape, has_bias && groups == 1 ? x.options().dtype(at::kFloat) : x.options());
    if (transposed)
      backward_input(g, out, w.contiguous(), x.contiguous(), groups);
    else
      forward(g, x.contiguous(), w.contiguous(), out, groups);
  }
  if (has_bias) {
    std::vector<int64_t> per_channel(static_cast<size_t>(out.dim()), 1);
    per_channel[1] = -1;
    out.add_(bias->view(per_channel));
  }
  return out.to(x.scalar_type()).contiguous(format_of(x, w));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef, int64_t groups,
    std::array<bool, 3> output_mask) {
  check_inputs("convolution_backward", input, weight);
  const int64_t spatial = input.dim() - 2;
  at::Tensor x = input, w = weight, gy = grad_output;
  const Extent kernel = extent(w.sizes().slice(2), spatial, 1), s = extent(stride, spatial, 1),
               pad = extent(padding, spatial, 0), dil = extent(dilation, spatial, 1),
               x_size = extent(x.sizes().slice(2), spatial, 1), y_size = extent(gy.sizes().slice(2), spatial, 1);
  const at::MemoryFormat format = format_of(x, w);
  at::Tensor gx, gw, gb;
  if (x.numel() != 0 && gy.numel() != 0 && in_tiles({x_size, y_size, kernel, s, pad, dil}, x, gy.size(1), groups)) {
    // Of a transposed convolution, the one that maps gy to x.
    const ConvGeometry g = transposed ? ConvGeometry{y_size, x_size, kernel, s, pad, dil}
                                      : ConvGeometry{x_size, y_size, kernel, s, pad, dil};
    if (output_mask[0])
      gx = (transposed ? implicit_gemm_forward(g, gy, w, {}, groups)
                       : implicit_gemm_backward_input(g, w.contiguous(), gy, {}, groups))
               .contiguous(format);
    if (output_mask[1])
      gw = (transposed ? implicit_gemm_backward_weight(g, gy, x, groups)
                       : implicit_gemm_backward_weight(g, x, gy, groups))
               .contiguous(format);
    if (output_mask[2]) gb = sum_of_channels(gy);
    return {gx, gw, gb};
  }
  x = x.contiguous();
  w = w.contiguous();
  gy = gy.contiguous();
  if (transposed) {
    // Roles swapped: the convolution maps gy to x.
    const Geometry g{{y_size, x_size, kernel, s, pad, dil}};
    if (output_mask[0]) {
      gx = at::empty(x.sizes(), x.options());
      forward(g, gy, w, gx, groups);
    }
    if (output_mask[1]) gw = backward_weight(g, gy, w.sizes(), x, groups);
  } else {
    const Geometry g{{x_size, y_size, kernel, s, pad, dil}};
    if (output_mask[0]) {
      gx = at::empty(x.sizes(), x.options());
      backward_input(g, gx, w, gy, groups);
    }
    if (output_mask[1]) gw = backward_weight(g, x, w.sizes(), gy, groups);
  }
  if (output_mask[2]) gb = sum_of_channels(gy);
  if (gx.defined()) gx = gx.contiguous(format);
  if (gw.defined()) gw = gw.contiguous(format);
  return {gx, gw, gb};
}

at::Tensor& im2col_out(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                       at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "im2col: expected a 3-D or 4-D tensor, got shape ", self.sizes());
  const bool batched = self.dim() == 4;
  const at::Tensor x = (batched ? self : self.unsqueeze(0)).contiguous();
  const Geometry g = window_geometry(x.sizes().slice(2), kernel_size, dilation, padding, stride);
  TORCH_CHECK(g.positions() > 0, "im2col: the sliding window does not fit an input of shape ", self.sizes());
  std::vector<int64_t> shape{x.size(0), x.size(1) * g.taps(), g.positions()};
  at::Tensor columns = at::empty(shape, x.options());
  run_unfold(g, x, columns, /*fold=*/false);
  if (!batched) columns = columns.squeeze(0);
  return hand_over(columns, out);
}
at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return im2col_out(self, kernel_size, dilation, padding, stride, out);
}
at::Tensor& col2im_out(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                       at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 2 || self.dim() == 3, "col2im: expected a 2-D or 3-D tensor, got shape ", self.sizes());
  const bool batched = self.dim() == 3;
  const at::Tensor columns = (batched ? self : self.unsqueeze(0)).contiguous();
  const Geometry g = window_geometry(output_size, kernel_size, dilation, padding, stride);
  TORCH_CHECK(columns.size(1) % g.taps() == 0 && columns.size(2) == g.positions(), "col2im: columns of shape ",
              self.sizes(), " do not fit output_size ", output_size, " and kernel_size ", kernel_size);
  at::Tensor image =
      at::empty({columns.size(0), columns.size(1) / g.taps(), output_size[0], output_size[1]}, columns.options());
  run_unfold(g, image, columns, /*fold=*/true);
  if (!batched) image = image.squeeze(0);
  return hand_over(image, out);
}
at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                  at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return col2im_out(self, output_size, kernel_size, dilation, padding, stride, out);
}

}  // namespace aule::ops
