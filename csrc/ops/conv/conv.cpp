#include "ops/conv/conv.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_conv.gen.h"
#include "ops/conv/geometry.h"
#include "ops/conv/grouped.h"
#include "ops/conv/halves_plan.h"
#include "ops/conv/implicit_gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/complex_parts.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

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

template <class Params>
void put(Params& p, const ConvGeometry& g) {
  put(p.size, g.size);
  put(p.out_size, g.out_size);
  put(p.kernel, g.kernel);
  put(p.stride, g.stride);
  put(p.pad, g.pad);
  put(p.dilation, g.dilation);
}

void launch_unfold(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& columns, bool fold) {
  const at::Tensor& result = fold ? image : columns;
  if (result.numel() == 0) return;
  UnfoldColumnsParams p{};
  TensorArgs args;
  p.image = fold ? args.write(image) : args.read(image);
  p.columns = fold ? args.read(columns) : args.write(columns);
  p.n = static_cast<uint64_t>(result.numel());
  put(p, g);
  const DType dtype = fold ? dtype_of(image, "col2im") : raw_dtype_of(image);
  const DType sum = fold && !is_floating(dtype) ? DType::i64 : compute_type(dtype);
  const auto kernel =
      kernel::unfold_columns(fold ? UnfoldColumnsDIRECTION::col2im : UnfoldColumnsDIRECTION::im2col, sum);
  launch(current(image), kernel, {.dtype = dtype}, p, args, linear_grid(ceil_div(p.n, kConvLocal)));
}

// Sums what columns have of each element of the image.
void run_fold(const HalvesPlan& plan, const ConvGeometry& g, const at::Tensor& image, const at::Tensor& columns) {
  if (image.numel() == 0) return;
  if (plan.halves.empty()) return launch_unfold(g, image, columns, /*fold=*/true);
  const auto by_tap = columns.view({image.size(0), image.size(1), g.kernel[0], g.kernel[1], g.kernel[2], -1});
  const auto fold_half = [&](size_t half, int64_t from, int64_t count, const at::Tensor& to) {
    run_fold(plan.halves[half], with_taps(g, plan.axis, from, count), to,
             by_tap.narrow(static_cast<int64_t>(plan.axis) + 2, from, count).contiguous());
  };
  const at::Tensor rest = at::empty_like(image);
  fold_half(0, 0, plan.first, image);
  fold_half(1, plan.first, plan.rest, rest);
  image.add_(rest);
}
void run_fold(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& columns) {
  run_fold(fold_plan(caps_of(image), g), g, image, columns);
}

const at::Tensor& result_of(ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y) {
  return pass == ConvPass::weight ? w : pass == ConvPass::input ? x : y;
}

void launch_direct(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                   int64_t groups, int64_t images) {
  const at::Tensor& result = result_of(pass, x, w, y);
  if (result.numel() == 0) return;
  ConvDirectParams p{};
  TensorArgs args;
  const auto argument = [&](const at::Tensor& t) { return t.is_same(result) ? args.write(t) : args.read(t); };
  p.x = argument(x);
  p.w = argument(w);
  p.y = argument(y);
  p.n = static_cast<uint64_t>(result.numel());
  put(p, g);
  p.batch = static_cast<int32_t>(x.size(0));
  p.groups = static_cast<int32_t>(groups);
  p.ci = static_cast<int32_t>(x.size(1) / groups);
  p.co = static_cast<int32_t>(y.size(1) / groups);
  p.images = static_cast<int32_t>(images);
  const auto grad = pass == ConvPass::forward ? ConvDirectGRAD::none
                    : pass == ConvPass::input ? ConvDirectGRAD::input
                                              : ConvDirectGRAD::weight;
  const ConvDirectSpec spec{.dtype = dtype_of(pass == ConvPass::input ? y : x, "convolution"),
                            .result_dtype = dtype_of(result, "convolution")};
  args.work = conv_work(g, x, y, groups);
  launch(current(x), kernel::conv_direct(grad), spec, p, args, linear_grid(ceil_div(p.n, kConvLocal)));
}

// The gradient of few weights is summed in parts, so that the device has enough to do; then the parts are added.
void launch_direct(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                   int64_t groups) {
  const int64_t images = x.size(0), enough = caps_of(x).is_software() ? 1 << 12 : 1 << 18;
  const int64_t wanted = std::min<int64_t>(images, ceil_div(enough, std::max<int64_t>(w.numel(), 1)));
  if (pass != ConvPass::weight || wanted <= 1) return launch_direct(g, pass, x, w, y, groups, images);
  const int64_t each = ceil_div(images, wanted);
  std::vector<int64_t> shape{ceil_div(images, each)};
  shape.insert(shape.end(), w.sizes().begin(), w.sizes().end());
  const at::Tensor parts = at::empty(shape, w.options().dtype(at::kFloat));
  launch_direct(g, pass, x, parts, y, groups, each);
  w.copy_(parts.sum(0));
}

// Halves of what is summed over, one after the other. All operands have three spatial dimensions, are contiguous and
// float32.
void add_halves(const HalvesPlan& plan, const DirectProblem& problem, const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& y, int64_t groups) {
  const ConvPass pass = problem.pass;
  if (plan.halves.empty()) return launch_direct(problem.g, pass, x, w, y, groups);
  const auto add_half = [&](size_t half, int64_t from, int64_t count, const at::Tensor& to) {
    const auto cut = [&](const at::Tensor& t, int64_t dim) { return t.narrow(dim, from, count).contiguous(); };
    const auto cut_channels = [&](const at::Tensor& t) {  // of every group
      const at::Tensor some = cut(t.view({t.size(0), groups, problem.summed, t.size(2), t.size(3), t.size(4)}), 2);
      return some.view({t.size(0), groups * count, t.size(2), t.size(3), t.size(4)});
    };
    const auto add = [&](const at::Tensor& part_x, const at::Tensor& part_w, const at::Tensor& part_y) {
      add_halves(plan.halves[half], part_of(problem, plan.axis, from, count), part_x, part_w, part_y, groups);
    };
    const bool along_side = plan.axis != kSummedAxis, input = pass == ConvPass::input;
    const auto dim = static_cast<int64_t>(plan.axis) + 2;
    if (pass == ConvPass::weight) return along_side ? add(x, to, cut(y, dim)) : add(cut(x, 0), to, cut(y, 0));
    if (along_side) return add(input ? to : x, cut(w, dim), input ? y : to);
    if (!input) return add(cut_channels(x), cut(w, 1), to);
    const at::Tensor rows = cut(w.view({groups, problem.summed, -1}), 1);
    add(to, rows.view({groups * count, w.size(1), w.size(2), w.size(3), w.size(4)}), cut_channels(y));
  };
  const at::Tensor& result = result_of(pass, x, w, y);
  const at::Tensor rest = at::empty_like(result);
  add_half(0, 0, plan.first, result);
  add_half(1, plan.first, plan.rest, rest);
  result.add_(rest);
}

void run_direct(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                int64_t groups) {
  const int64_t summed = pass == ConvPass::weight ? x.size(0) : (pass == ConvPass::input ? y : x).size(1) / groups;
  const DirectProblem problem{g, pass, summed};
  const auto plan = direct_plan(caps_of(x), problem);
  TORCH_CHECK_NOT_IMPLEMENTED(
      plan, "convolution: a loop over one tap of one channel is too long: ", loop_limit_text(caps_of(x)));
  if (plan->halves.empty()) return launch_direct(g, pass, x, w, y, groups);
  const at::Tensor& result = result_of(pass, x, w, y);
  const auto wide = [&](const at::Tensor& t) {
    const at::Tensor full = t.dim() == 5 ? t : t.dim() == 4 ? t.unsqueeze(2) : t.unsqueeze(2).unsqueeze(2);
    if (t.scalar_type() == at::kFloat) return full;
    return t.is_same(result) ? at::empty(full.sizes(), t.options().dtype(at::kFloat)) : full.to(at::kFloat);
  };
  const at::Tensor wide_x = wide(x), wide_w = wide(w), wide_y = wide(y);
  add_halves(*plan, problem, wide_x, wide_w, wide_y, groups);
  if (result.scalar_type() != at::kFloat) result.copy_(result_of(pass, wide_x, wide_w, wide_y).view(result.sizes()));
}

// Images per chunk, so that a chunk's columns stay under kColumnsBytes.
int64_t chunk_of(const ConvGeometry& g, const at::Tensor& x) {
  const int64_t bytes = x.size(1) * g.taps() * g.positions() * x.element_size();
  return std::max<int64_t>(1, std::min(x.size(0), kColumnsBytes / std::max<int64_t>(bytes, 1)));
}
at::Tensor columns_of(const ConvGeometry& g, const at::Tensor& x) {
  if (g.is_identity()) return x.reshape({x.size(0), x.size(1), g.positions()});
  at::Tensor columns = at::empty({x.size(0), x.size(1) * g.taps(), g.positions()}, x.options());
  launch_unfold(g, x, columns, /*fold=*/false);
  return columns;
}

// Only columns and products serve these dtypes, in groups too.
bool is_wide(const at::Tensor& t) { return t.scalar_type() == at::kDouble || !t.is_floating_point(); }
// Of float16 and bfloat16 sums are float32.
c10::ScalarType sum_type(const at::Tensor& t) { return is_wide(t) ? t.scalar_type() : at::kFloat; }

// result = a * b for [images, groups, rows, columns], by as few launches as there are images or groups.
void multiply_groups(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) {
  const int64_t dim = result.size(1) <= result.size(0) ? 1 : 0;
  for (int64_t i = 0; i < result.size(dim); ++i)
    gemm("convolution", a.select(dim, i), b.select(dim, i), {}, 0, 1, result.select(dim, i));
}
// w[O, C/groups, *] for every image, and [N, channels, positions] in groups.
at::Tensor matrices_of(const at::Tensor& w, int64_t images, int64_t groups) {
  return w.reshape({1, groups, w.size(0) / groups, -1}).expand({images, -1, -1, -1});
}
at::Tensor in_groups(const at::Tensor& t, int64_t groups) {
  return t.view({t.size(0), groups, t.size(1) / groups, t.size(2)});
}

// y[N, O, *] = x[N, C, *] * w[O, C/groups, *]: all contiguous; y of 16-bit operands may be float32, without groups. w
// may have the conjugate bit.
void forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, int64_t groups) {
  if (y.numel() == 0) return;
  if (groups != 1 && !is_wide(x)) return run_direct(g, ConvPass::forward, x, w, y, groups);
  at::Tensor flat = y.view({y.size(0), y.size(1), g.positions()});
  for (int64_t at = 0, step = chunk_of(g, x); at < x.size(0); at += step) {
    const int64_t count = std::min(step, x.size(0) - at);
    multiply_groups(matrices_of(w, count, groups), in_groups(columns_of(g, x.narrow(0, at, count)), groups),
                    in_groups(flat.narrow(0, at, count), groups));
  }
}

void fold(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& columns) {
  if (!image.is_complex()) return run_fold(g, image, columns);
  at::Tensor written = image;
  written.copy_(of_both_parts(columns, [&](const at::Tensor& part) {
    const at::Tensor sums = at::empty(image.sizes(), part.options());
    run_fold(g, sums, part.contiguous());
    return sums;
  }));
}

// The columns of 16-bit operands are float32, so that their sums are rounded once; gx may then be float32 too. w may
// have the conjugate bit.
void backward_input(const ConvGeometry& g, const at::Tensor& gx, const at::Tensor& w, const at::Tensor& gy,
                    int64_t groups) {
  if (gx.numel() == 0) return;
  if (groups != 1 && !is_wide(gx)) return run_direct(g, ConvPass::input, gx, w, gy, groups);
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  for (int64_t at = 0, step = chunk_of(g, gx); at < gx.size(0); at += step) {
    const int64_t count = std::min(step, gx.size(0) - at);
    at::Tensor part = gx.narrow(0, at, count);
    const at::TensorOptions wide = gx.options().dtype(sum_type(gx));
    const at::Tensor columns = at::empty({count, gx.size(1) * g.taps(), flat.size(2)}, wide);
    multiply_groups(matrices_of(w, count, groups).mT(), in_groups(flat.narrow(0, at, count), groups),
                    in_groups(columns, groups));
    if (g.is_identity()) {
      part.view(columns.sizes()).copy_(columns);
    } else {
      const at::Tensor image = part.scalar_type() == sum_type(gx) ? part : at::empty(part.sizes(), wide);
      fold(g, image, columns);
      if (!image.is_same(part)) part.copy_(image);
    }
  }
}

// Of complex operands, one is conjugated: x, which is the image, or the places if the convolution was transposed.
at::Tensor backward_weight(const ConvGeometry& g, const at::Tensor& x, at::IntArrayRef weight_size,
                           const at::Tensor& gy, int64_t groups, bool transposed) {
  at::Tensor gw = at::empty(weight_size, x.options());
  if (gw.numel() == 0) return gw;
  if (x.numel() == 0 || gy.numel() == 0) return gw.zero_();
  if (groups != 1 && !is_wide(x)) {
    run_direct(g, ConvPass::weight, x, gw, gy, groups);
    return gw;
  }
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  // Images are summed in float32 or wider.
  at::Tensor sum;
  for (int64_t at = 0, step = chunk_of(g, x); at < x.size(0); at += step) {
    const int64_t count = std::min(step, x.size(0) - at);
    const at::Tensor columns = in_groups(columns_of(g, x.narrow(0, at, count)), groups),
                     places = in_groups(flat.narrow(0, at, count), groups);
    const at::Tensor products = at::empty({count, groups, places.size(2), columns.size(2)}, x.options());
    multiply_groups(transposed ? places.conj() : places, transposed ? columns.mT() : columns.mH(), products);
    const at::Tensor part = products.sum(at::IntArrayRef{0}, false, sum_type(x));
    sum = sum.defined() ? sum.add_(part) : part;
  }
  return gw.copy_(sum.view(weight_size));
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
  const auto type = input.scalar_type();
  const bool is_double = c10::toRealValueType(type) == at::kDouble;
  const bool serves = input.is_complex() ? type != at::kComplexHalf : has_dtype(type) && type != at::kBool;
  TORCH_CHECK_NOT_IMPLEMENTED(serves && (!is_double || caps_of(input).float64), op, ": dtype ", type,
                              " has no kernel on this device");
  TORCH_CHECK_NOT_IMPLEMENTED(input.dim() >= 3 && input.dim() <= 5, op,
                              ": expected 1 to 3 spatial dimensions, got input of shape ", input.sizes());
}

// How results lie, as on PyTorch's own devices; torch_aule/ops/convolution.py tells the compiler.
at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& w) {
  const auto own = x.suggest_memory_format();
  return own == at::MemoryFormat::Contiguous ? w.suggest_memory_format() : own;
}

// The result of a convolution, or (`backwards`) the gradient of what it maps from; undefined where other kernels serve.
at::Tensor in_thin_groups(const ConvGeometry& g, bool backwards, const at::Tensor& image, const at::Tensor& w,
                          const at::Tensor& bias, int64_t groups, at::IntArrayRef shape, at::MemoryFormat format) {
  const at::Tensor dense = image.contiguous(format);
  at::Tensor result = at::empty(shape, image.options().memory_format(format));
  const bool done = backwards ? grouped_conv(g, ConvPass::input, result, w, dense, bias, groups, format)
                              : grouped_conv(g, ConvPass::forward, dense, w, result, bias, groups, format);
  return done ? result : at::Tensor();
}

at::Tensor weight_in_thin_groups(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& w, const at::Tensor& gy,
                                 int64_t groups, at::MemoryFormat format) {
  // Matrix units were faster from groups of 8 channels on, by 4 to 6 times on an H100 (g32 3x3 256 28, channels-last).
  if (x.element_size() == 2 && w.size(1) >= 8 && implicit_gemm_serves(g, x, x.size(1), gy.size(1), groups)) return {};
  const at::Tensor result = at::empty(w.sizes(), w.options());
  const bool done = grouped_conv_weight(g, x.contiguous(format), result, gy.contiguous(format), groups, format);
  return done ? result : at::Tensor();
}

// Sliding windows over a plane of this size, of im2col and col2im.
ConvGeometry window_geometry(at::IntArrayRef size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                             at::IntArrayRef padding, at::IntArrayRef stride) {
  ConvGeometry g{extent(size, 2, 1),        {1, 1, 1},
                 extent(kernel_size, 2, 1), extent(stride, 2, 1),
                 extent(padding, 2, 0),     extent(dilation, 2, 1)};
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
  const ConvGeometry g =
      transposed ? ConvGeometry{result, size, kernel, s, pad, dil} : ConvGeometry{size, result, kernel, s, pad, dil};
  const bool has_bias = bias.has_value() && bias->defined(),
             in_kernel = has_bias && bias->is_contiguous() && bias->scalar_type() == x.scalar_type();
  const bool is_empty = c10::multiply_integers(shape) == 0 || x.numel() == 0;
  const at::Tensor added = in_kernel ? *bias : at::Tensor();
  at::Tensor out;
  // A transposed convolution is the input gradient of the convolution that maps `out` to `x`.
  if (groups != 1 && !is_empty && !is_wide(x) &&
      (out = in_thin_groups(g, transposed, x, w, added, groups, shape, format_of(x, w))).defined()) {
    if (in_kernel) return out;
  } else if (!is_empty && !is_wide(x) &&
             implicit_gemm_serves(g, x, transposed ? shape[1] : x.size(1), transposed ? x.size(1) : shape[1], groups)) {
    out = transposed ? implicit_gemm_backward_input(g, w.contiguous(), x, added, groups, format_of(x, w))
                     : implicit_gemm_forward(g, x, w, added, groups);
    out = out.contiguous(format_of(x, w));
    if (in_kernel) return out;
  } else {
    // The bias is added before the result is rounded.
    out = at::empty(shape, has_bias && groups == 1 ? x.options().dtype(sum_type(x)) : x.options());
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
  // Of a transposed convolution, the one that maps gy to x.
  const ConvGeometry g = transposed ? ConvGeometry{y_size, x_size, kernel, s, pad, dil}
                                    : ConvGeometry{x_size, y_size, kernel, s, pad, dil};
  const at::Tensor &image = transposed ? gy : x, &places = transposed ? x : gy;
  const bool is_empty = x.numel() == 0 || gy.numel() == 0;
  if (groups != 1 && !is_empty && !is_wide(x)) {
    if (output_mask[0]) gx = in_thin_groups(g, !transposed, gy, w, {}, groups, x.sizes(), format);
    if (output_mask[1]) gw = weight_in_thin_groups(g, image, w, places, groups, format);
    output_mask[0] = output_mask[0] && !gx.defined();
    output_mask[1] = output_mask[1] && !gw.defined();
  }
  const bool is_done = !output_mask[0] && !output_mask[1];
  if (!is_done && !is_empty && !is_wide(x) && implicit_gemm_serves(g, x, image.size(1), places.size(1), groups)) {
    if (output_mask[0])
      gx = (transposed ? implicit_gemm_forward(g, gy, w, {}, groups)
                       : implicit_gemm_backward_input(g, w.contiguous(), gy, {}, groups, format))
               .contiguous(format);
    if (output_mask[1]) gw = implicit_gemm_backward_weight(g, image, places, groups).contiguous(format);
    if (output_mask[2]) gb = sum_of_channels(gy);
    return {gx, gw, gb};
  }
  if (!is_done) {
    x = x.contiguous();
    w = w.contiguous().conj();
    gy = gy.contiguous();
  }
  if (transposed) {  // roles swapped
    if (output_mask[0]) {
      gx = at::empty(x.sizes(), x.options());
      forward(g, gy, w, gx, groups);
    }
    if (output_mask[1]) gw = backward_weight(g, gy, w.sizes(), x, groups, transposed);
  } else {
    if (output_mask[0]) {
      gx = at::empty(x.sizes(), x.options());
      backward_input(g, gx, w, gy, groups);
    }
    if (output_mask[1]) gw = backward_weight(g, x, w.sizes(), gy, groups, transposed);
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
  const ConvGeometry g = window_geometry(x.sizes().slice(2), kernel_size, dilation, padding, stride);
  TORCH_CHECK(g.positions() > 0, "im2col: the sliding window does not fit an input of shape ", self.sizes());
  std::vector<int64_t> shape{x.size(0), x.size(1) * g.taps(), g.positions()};
  at::Tensor columns = at::empty(shape, x.options());
  launch_unfold(g, x, columns, /*fold=*/false);
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
  if (self.is_complex()) {
    const auto fold = [&](const at::Tensor& part) {
      return ops::col2im(part, output_size, kernel_size, dilation, padding, stride);
    };
    return hand_over(of_both_parts(self, fold), out);
  }
  const bool batched = self.dim() == 3;
  const at::Tensor columns = (batched ? self : self.unsqueeze(0)).contiguous();
  const ConvGeometry g = window_geometry(output_size, kernel_size, dilation, padding, stride);
  TORCH_CHECK(columns.size(1) % g.taps() == 0 && columns.size(2) == g.positions(), "col2im: columns of shape ",
              self.sizes(), " do not fit output_size ", output_size, " and kernel_size ", kernel_size);
  at::Tensor image =
      at::empty({columns.size(0), columns.size(1) / g.taps(), output_size[0], output_size[1]}, columns.options());
  run_fold(g, image, columns);
  if (!batched) image = image.squeeze(0);
  return hand_over(image, out);
}
at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                  at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return col2im_out(self, output_size, kernel_size, dilation, padding, stride, out);
}

}  // namespace aule::ops
