#include "ops/conv/implicit_gemm.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "kernels_conv.gen.h"
#include "ops/conv/division.h"
#include "ops/conv/plan.h"
#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

int64_t vec16b_elems(const at::Tensor& t) { return 16 / t.element_size(); }
int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

at::Tensor four_dims(const at::Tensor& t) { return t.dim() == 3 ? t.unsqueeze(2) : t; }
// [..., channels] with the last padded to whole vec16bs, dense; `t` is [.., channels at 1, ..].
at::Tensor channels_last(const at::Tensor& t) {
  const at::Tensor last = four_dims(t).permute({0, 2, 3, 1});
  const int64_t channels = last.size(3), padded = round_up(channels, vec16b_elems(t));
  if (padded == channels && (!last.is_contiguous() || address_of(last) % 16 == 0)) return last.contiguous();
  at::Tensor out = at::empty({last.size(0), last.size(1), last.size(2), padded}, t.options());
  if (padded != channels) out.narrow(3, channels, padded - channels).zero_();
  out.narrow(3, 0, channels).copy_(last);
  return out;
}
at::Tensor back(const at::Tensor& last, int64_t dims) {
  const at::Tensor t = last.permute({0, 3, 1, 2});
  return dims == 3 ? t.squeeze(2) : t;
}

// The constants that the plan gives.
ImplicitGemmSpec spec_of(const ImplicitGemmPlan& plan) {
  const TilePlan& t = plan.tile;
  return {.mat_m = plan.mat_m,
          .mat_n = plan.mat_n,
          .local = plan.local,
          .bm = t.bm,
          .bn = t.bn,
          .wm = t.wm,
          .wn = t.wn,
          .bk = t.bk,
          .out_vec8 = plan.out_vec8,
          .one_tap = plan.one_tap};
}

std::optional<ImplicitGemmPlan> plan_for(const at::Tensor& x, const ImplicitGemmProblem& g) {
  return implicit_gemm_plan(profile_of(x), matrix_units(static_cast<int>(x.get_device()), g.dtype), g);
}

// The members that describe the gathered tensor and the positions: rows of `positions` {height, width}.
void set_gather(ImplicitGemmParams& p, const at::Tensor& x, int32_t height, int32_t width, int64_t groups) {
  p.channels = static_cast<uint32_t>(x.size(3) / groups);
  p.pixel = static_cast<uint32_t>(x.size(3));
  p.x_group = p.channels;
  p.groups = static_cast<uint32_t>(groups);
  p.height = static_cast<int32_t>(x.size(1));
  p.width = static_cast<int32_t>(x.size(2));
  p.area = static_cast<uint32_t>(height) * static_cast<uint32_t>(width);
  p.row_width = static_cast<uint32_t>(width);
  set_division(p.by_area, p.area);
  set_division(p.by_row_width, p.row_width);
  set_division(p.by_channels, p.channels);
}

// Where a result's row or column of place y is made from: y * mul + off + tap * step.
struct Taps {
  int32_t kernel[2], mul[2], off[2], step[2];
};

Taps taps_of(const ConvGeometry& g) {
  return {
      {g.kernel[1], g.kernel[2]}, {g.stride[1], g.stride[2]}, {-g.pad[1], -g.pad[2]}, {g.dilation[1], g.dilation[2]}};
}

void set_taps(ImplicitGemmParams& p, const Taps& taps) {
  p.kernel_width = taps.kernel[1];
  set_division(p.by_kernel_width, static_cast<uint32_t>(taps.kernel[1]));
  for (size_t d = 0; d < 2; ++d) {
    p.mul[d] = taps.mul[d];
    p.off[d] = taps.off[d];
    p.step[d] = taps.step[d];
  }
}

// x, w and the result are channels-last; w is [groups * n, taps * channels].
at::Tensor positions(const Taps& taps, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias, int32_t height,
                     int32_t width, int64_t out_channels, int64_t groups) {
  const at::Tensor out = at::empty({x.size(0), height, width, out_channels}, x.options());
  ImplicitGemmParams p{};
  TensorArgs args;
  p.x = args.read(x);
  p.w = args.read(w);
  p.out_ = args.write(out);
  if (bias.defined()) p.bias = args.read(bias);
  set_gather(p, x, height, width, groups);
  set_taps(p, taps);
  p.m = static_cast<uint32_t>(x.size(0)) * p.area;
  p.n = static_cast<uint32_t>(out_channels / groups);
  p.k = static_cast<uint32_t>(taps.kernel[0] * taps.kernel[1]) * p.channels;
  p.w_ld = p.k;
  p.w_group = p.n * p.k;
  p.out_ld = static_cast<uint32_t>(out_channels);
  p.out_group = p.n;
  p.splits = 1;
  const DType dtype = dtype_of(x, "convolution");
  const auto plan = plan_for(x, {dtype, /*makes_weights=*/false, p.m, p.n, p.k, p.channels, p.groups});
  TORCH_INTERNAL_ASSERT(plan.has_value());
  ImplicitGemmSpec spec = spec_of(*plan);
  spec.has_bias = bias.defined();
  launch(current(x), kernel::implicit_gemm(dtype, ImplicitGemmMAKES::positions), spec, p, args, plan->grid);
  return out;
}

// A kernel of one tap and no padding: a product of matrices whose rows are positions.
bool is_pointwise(const ConvGeometry& g, int64_t groups) {
  return groups == 1 && g.kernel[1] * g.kernel[2] == 1 && g.pad[1] == 0 && g.pad[2] == 0;
}
// [images, height, width, channels] at every stride-th place.
at::Tensor at_strides(const ConvGeometry& g, const at::Tensor& image) {
  at::Tensor t = image;
  for (size_t d = 1; d <= 2; ++d) {
    if (g.stride[d] != 1) t = t.slice(static_cast<int64_t>(d), 0, std::nullopt, g.stride[d]);
  }
  return t;
}
at::Tensor rows_of(const at::Tensor& image, int64_t channels) {
  return image.contiguous().view({-1, image.size(3)}).narrow(1, 0, channels);
}

}  // namespace

bool implicit_gemm_serves(const ConvGeometry& g, const at::Tensor& x, int64_t channels, int64_t out_channels,
                          int64_t groups) {
  const DType dtype = dtype_of(x, "convolution");
  const ImplicitGemmSizes sizes{g, dtype, x.dim() - 2, x.size(0), channels, out_channels, groups};
  if (!implicit_gemm_takes(profile_of(x), sizes)) return false;
  return plan_for(x, {dtype, false, 64, 64, 64, 64, 1}) && plan_for(x, {dtype, true, 64, 64, 64, 64, 1});
}

at::Tensor implicit_gemm_forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, int64_t groups) {
  const at::Tensor image = channels_last(x);
  if (is_pointwise(g, groups)) {
    const int64_t channels = weight.size(1), out_channels = weight.size(0);
    const at::Tensor rows = rows_of(at_strides(g, image), channels),
                     w = weight.contiguous().view({out_channels, channels}).t();
    const at::Tensor out = bias.defined() ? at::addmm(bias, rows, w) : at::mm(rows, w);
    return back(out.view({x.size(0), g.out_size[1], g.out_size[2], out_channels}), x.dim());
  }
  const at::Tensor w = channels_last(weight);
  return back(positions(taps_of(g), image, w, bias, g.out_size[1], g.out_size[2], weight.size(0), groups), x.dim());
}

at::Tensor implicit_gemm_backward_input(const ConvGeometry& g, const at::Tensor& weight, const at::Tensor& grad,
                                        const at::Tensor& bias, int64_t groups) {
  const auto put_nothing = [&](const at::Tensor& places) {  // where no tap leads
    bias.defined() ? places.copy_(bias) : places.zero_();
  };
  if (is_pointwise(g, groups)) {
    const int64_t channels = weight.size(1), out_channels = weight.size(0);
    const at::Tensor rows = rows_of(channels_last(grad), out_channels),
                     w = weight.contiguous().view({out_channels, channels});
    const at::Tensor out = (bias.defined() ? at::addmm(bias, rows, w) : at::mm(rows, w))
                               .view({grad.size(0), g.out_size[1], g.out_size[2], channels});
    if (g.stride[1] * g.stride[2] == 1) return back(out, grad.dim());
    const at::Tensor all = at::empty({grad.size(0), g.size[1], g.size[2], channels}, grad.options());
    put_nothing(all);
    at_strides(g, all).copy_(out);
    return back(all, grad.dim());
  }
  // [groups * channels, taps, out channels / groups]: out channels are what is summed over.
  const at::Tensor four = four_dims(weight);
  const int64_t per_group = four.size(0) / groups, channels = four.size(1);
  const at::Tensor turned = four.view({groups, per_group, channels, four.size(2), four.size(3)})
                                .transpose(1, 2)
                                .reshape({groups * channels, per_group, four.size(2), four.size(3)});
  const at::Tensor image = channels_last(grad);
  // Places of the input whose rests by the stride are equal see the same taps: each such class is a result of stride 1.
  const auto class_of = [&](int32_t rest, size_t e, Taps& taps) {
    const size_t d = e - 1;
    const int32_t s = g.stride[e], step = s / std::gcd(s, g.dilation[e]);
    int32_t first = 0;
    while (first < g.kernel[e] && (rest + g.pad[e] - first * g.dilation[e]) % s != 0) ++first;
    taps.kernel[d] = first < g.kernel[e] ? (g.kernel[e] - first + step - 1) / step : 0;
    taps.mul[d] = 1;
    taps.off[d] = (rest + g.pad[e] - first * g.dilation[e]) / s;
    taps.step[d] = -g.dilation[e] * step / s;
    return std::pair{first, step};
  };
  at::Tensor out;
  for (int32_t y = 0; y < std::min(g.stride[1], g.size[1]); ++y) {
    for (int32_t x = 0; x < std::min(g.stride[2], g.size[2]); ++x) {
      Taps taps{};
      const auto [first_y, step_y] = class_of(y, 1, taps);
      const auto [first_x, step_x] = class_of(x, 2, taps);
      const int32_t height = (g.size[1] - y + g.stride[1] - 1) / g.stride[1],
                    width = (g.size[2] - x + g.stride[2] - 1) / g.stride[2];
      const bool reached = taps.kernel[0] != 0 && taps.kernel[1] != 0;
      at::Tensor part;
      if (reached) {
        const at::Tensor w =
            channels_last(turned.slice(2, first_y, std::nullopt, step_y).slice(3, first_x, std::nullopt, step_x));
        part = positions(taps, image, w, bias, height, width, groups * channels, groups);
      }
      if (g.stride[1] == 1 && g.stride[2] == 1) return back(part, grad.dim());
      if (!out.defined()) out = at::empty({grad.size(0), g.size[1], g.size[2], groups * channels}, grad.options());
      const at::Tensor places = out.slice(1, y, std::nullopt, g.stride[1]).slice(2, x, std::nullopt, g.stride[2]);
      if (reached)
        places.copy_(part);
      else
        put_nothing(places);
    }
  }
  return back(out, grad.dim());
}

at::Tensor implicit_gemm_backward_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& grad,
                                         int64_t groups) {
  const at::Tensor image = channels_last(x), gy = channels_last(grad);
  const int64_t out_channels = grad.size(1);
  if (is_pointwise(g, groups)) {
    const at::Tensor out = at::mm(rows_of(gy, out_channels).t(), rows_of(at_strides(g, image), x.size(1)));
    return back(out.view({out_channels, 1, 1, x.size(1)}), x.dim());
  }
  ImplicitGemmParams p{};
  TensorArgs args;
  p.x = args.read(image);
  p.w = args.read(gy);
  set_gather(p, image, g.out_size[1], g.out_size[2], groups);
  set_taps(p, taps_of(g));
  p.m = static_cast<uint32_t>(out_channels / groups);
  p.n = static_cast<uint32_t>(g.kernel[1] * g.kernel[2]) * p.channels;
  p.k = static_cast<uint32_t>(image.size(0)) * p.area;
  p.w_ld = static_cast<uint32_t>(gy.size(3));
  p.w_group = p.m;
  const DType dtype = dtype_of(x, "convolution");
  const auto plan = plan_for(x, {dtype, /*makes_weights=*/true, p.m, p.n, p.k, p.channels, p.groups});
  TORCH_INTERNAL_ASSERT(plan.has_value());
  p.splits = plan->splits;
  const at::Tensor partial = at::empty({p.splits, out_channels, p.n}, x.options().dtype(at::kFloat));
  p.out_ = args.write(partial);
  launch(current(x), kernel::implicit_gemm(dtype, ImplicitGemmMAKES::weights), spec_of(*plan), p, args, plan->grid);
  const at::Tensor total = p.splits == 1 ? partial[0] : at::sum(partial, at::IntArrayRef{0});
  const at::Tensor last = total.view({out_channels, g.kernel[1], g.kernel[2], p.channels})
                              .narrow(3, 0, x.size(1) / groups)
                              .to(x.scalar_type());
  return back(last, x.dim());
}

}  // namespace aule::ops
