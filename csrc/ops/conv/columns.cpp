#include "ops/conv/columns.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

#include "kernels_conv.gen.h"
#include "ops/conv/extent.h"
#include "ops/conv/launch.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/complex_parts.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr int64_t kColumnsBytes = 256 << 20;  // images are taken in chunks whose columns fit

void launch_unfold(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& columns, bool fold) {
  const at::Tensor& result = fold ? image : columns;
  if (result.numel() == 0) return;
  UnfoldColumnsParams p{};
  TensorArgs args;
  p.image = fold ? args.write(image) : args.read(image);
  p.columns = fold ? args.read(columns) : args.write(columns);
  p.n = static_cast<uint64_t>(result.numel());
  set_geometry(p, g);
  const DType dtype = fold ? dtype_of(image, "col2im") : raw_dtype_of(image);
  const DType sum = fold && !is_floating(dtype) ? DType::i64 : compute_type(dtype);
  const auto kernel =
      kernel::unfold_columns(fold ? UnfoldColumnsDIRECTION::col2im : UnfoldColumnsDIRECTION::im2col, sum);
  launch(current(image), kernel, {.dtype = dtype}, p, args, linear_grid(ceil_div(p.n, UnfoldColumnsParams::kLocal)));
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
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  for (int64_t at = 0, step = chunk_of(g, gx); at < gx.size(0); at += step) {
    const int64_t count = std::min(step, gx.size(0) - at);
    at::Tensor part = gx.narrow(0, at, count);
    const at::TensorOptions wide = gx.options().dtype(sum_type(gx.scalar_type()));
    const at::Tensor columns = at::empty({count, gx.size(1) * g.taps(), flat.size(2)}, wide);
    multiply_groups(matrices_of(w, count, groups).mT(), in_groups(flat.narrow(0, at, count), groups),
                    in_groups(columns, groups));
    if (g.is_identity()) {
      part.view(columns.sizes()).copy_(columns);
    } else {
      const at::Tensor image = part.scalar_type() == sum_type(gx.scalar_type()) ? part : at::empty(part.sizes(), wide);
      fold(g, image, columns);
      if (!image.is_same(part)) part.copy_(image);
    }
  }
}

// One of complex operands is conjugated: x, which is the image, or the places if the convolution was transposed.
at::Tensor backward_weight(const ConvGeometry& g, const at::Tensor& x, at::IntArrayRef weight_size,
                           const at::Tensor& gy, int64_t groups, bool transposed) {
  at::Tensor gw = at::empty(weight_size, x.options());
  if (gw.numel() == 0) return gw;
  if (x.numel() == 0 || gy.numel() == 0) return gw.zero_();
  const at::Tensor flat = gy.view({gy.size(0), gy.size(1), g.positions()});
  // Images are summed in float32 or wider.
  at::Tensor sum;
  for (int64_t at = 0, step = chunk_of(g, x); at < x.size(0); at += step) {
    const int64_t count = std::min(step, x.size(0) - at);
    const at::Tensor columns = in_groups(columns_of(g, x.narrow(0, at, count)), groups),
                     places = in_groups(flat.narrow(0, at, count), groups);
    const at::Tensor products = at::empty({count, groups, places.size(2), columns.size(2)}, x.options());
    multiply_groups(transposed ? places.conj() : places, transposed ? columns.mT() : columns.mH(), products);
    const at::Tensor part = products.sum(at::IntArrayRef{0}, false, sum_type(x.scalar_type()));
    sum = sum.defined() ? sum.add_(part) : part;
  }
  return gw.copy_(sum.view(weight_size));
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

c10::ScalarType sum_type(c10::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

at::Tensor launch_columns(const ConvCall& call) {
  const ConvProblem& p = call.problem;
  if (p.pass == ConvPass::weight)
    return backward_weight(p.g, call.image.contiguous(), call.result_sizes, call.places.contiguous(), p.groups,
                           call.transposed);
  const at::Tensor result = call.empty_result(call.result_type);
  if (p.pass == ConvPass::forward)
    forward(p.g, call.image.contiguous(), call.weight.contiguous(), result, p.groups);
  else
    backward_input(p.g, result, call.weight.contiguous(), call.places.contiguous(), p.groups);
  return result;
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
