// Convolutions as matrix products whose gathered operand is never stored (implicit_gemm.comp), channels-last
// throughout: other layouts are converted on the way in. float16 and bfloat16 on matrix units, float32 by plain
// arithmetic on GPUs, or as pieces on matrix units.
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <numeric>

#include "kernels_conv.gen.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/division.h"
#include "ops/conv/launch.h"
#include "ops/conv/pieces.h"
#include "ops/conv/taps.h"
#include "ops/matmul/kernels/splits.h"
#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Extent = ConvGeometry::Extent;

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

// The members that describe the gathered tensor and the positions: planes of rows of `places` {depth, height, width}.
void set_gather(ImplicitGemmParams& p, const at::Tensor& x, const Extent& places, int64_t groups) {
  p.channels = static_cast<uint32_t>(x.size(4) / groups);
  p.pixel = static_cast<uint32_t>(x.size(4));
  p.x_group = p.channels;
  p.groups = static_cast<uint32_t>(groups);
  for (size_t d = 0; d < 3; ++d) p.size[d] = static_cast<int32_t>(x.size(static_cast<int64_t>(d) + 1));
  p.row_width = static_cast<uint32_t>(places[2]);
  p.plane = static_cast<uint32_t>(places[1]) * p.row_width;
  p.area = static_cast<uint32_t>(places[0]) * p.plane;
  set_division(p.by_area, p.area);
  set_division(p.by_plane, p.plane);
  set_division(p.by_row_width, p.row_width);
  set_division(p.by_channels, p.channels);
}

// Whether places or taps differ along the first axis.
bool is_deep(const at::Tensor& x, const Extent& places, const ConvTaps& taps) {
  return x.size(1) != 1 || places[0] != 1 || taps.kernel[0] != 1 || taps.off[0] != 0;
}

void set_taps(ImplicitGemmParams& p, const ConvTaps& taps) {
  p.kernel_width = taps.kernel[2];
  p.kernel_plane = taps.kernel[1] * taps.kernel[2];
  set_division(p.by_kernel_width, static_cast<uint32_t>(p.kernel_width));
  set_division(p.by_kernel_plane, static_cast<uint32_t>(p.kernel_plane));
  for (size_t d = 0; d < 3; ++d) {
    p.mul[d] = taps.mul[d];
    p.off[d] = taps.off[d];
    p.step[d] = taps.step[d];
  }
}

Work work_of(const ImplicitGemmParams& p, DType dtype) { return {2.0 * p.m * p.n * p.k * p.groups, dtype}; }

// Both operands of a product, as the plan has them.
class Operands {
 public:
  Operands(const ConvCall& call, const GatheredPlan& plan, const at::Tensor& first, const at::Tensor& second)
      : shared_(call.shared), plan_(plan), first_(first), second_(second) {
    if (plan.scaled) largest_ = largest_sizes(first_, second_, shared_);
  }
  // Channels-last. `second`: or a part of it.
  at::Tensor first() const { return of_channels(first_, Operand::first); }
  at::Tensor second() const { return second(second_); }
  at::Tensor second(const at::Tensor& t) const { return of_channels(t, Operand::second); }
  // Likewise, pieces as further images.
  at::Tensor images(Operand which) const {
    const at::Tensor& t = which == Operand::first ? first_ : second_;
    if (plan_.products == 0) return of_channels(t, which);
    return pieces_of_images(channels_last(t, shared_), plan_.products, which);
  }
  // Of both, if they are scaled.
  const at::Tensor& largest() const { return largest_; }

 private:
  at::Tensor of_channels(const at::Tensor& t, Operand which) const {
    if (plan_.scaled) return scaled_halves(t, largest_[which == Operand::first ? 0 : 1], shared_);
    const at::Tensor last = channels_last(t, shared_);
    return plan_.products == 0 ? last : pieces_of_channels(last, plan_.products, which);
  }

  SharedOperand* shared_;
  const GatheredPlan& plan_;
  at::Tensor first_, second_, largest_;
};

// x, w and the result are channels-last; w is [groups * n, taps * channels]. The result of pieces is float32.
// `largest`: of operands that are scaled.
at::Tensor positions(const ConvTaps& taps, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                     const Extent& places, int64_t out_channels, int64_t groups, at::ScalarType result,
                     const at::Tensor& largest) {
  const bool of_pieces = result != x.scalar_type();
  const at::Tensor out =
      at::empty({x.size(0), places[0], places[1], places[2], out_channels}, x.options().dtype(result));
  ImplicitGemmParams p{};
  TensorArgs args;
  p.x = args.read(x);
  p.w = args.read(w);
  set_gather(p, x, places, groups);
  set_taps(p, taps);
  p.m = static_cast<uint32_t>(x.size(0)) * p.area;
  p.n = static_cast<uint32_t>(out_channels / groups);
  p.k = static_cast<uint32_t>(ConvGeometry::volume(taps.kernel)) * p.channels;
  p.w_ld = p.k;
  p.w_group = p.n * p.k;
  p.out_ld = static_cast<uint32_t>(out_channels);
  p.out_group = p.n;
  const DType dtype = dtype_of(x, "convolution");
  const auto plan = plan_for(x, {dtype, /*makes_weights=*/false, p.m, p.n, p.k, p.channels, p.groups});
  TORCH_INTERNAL_ASSERT(plan.has_value());
  p.splits = plan->splits;
  const bool in_parts = p.splits > 1;  // float32 sums; those of pieces are the result if there is one part
  const at::Tensor sums =
      in_parts ? at::empty({p.splits, p.m, out_channels}, x.options().dtype(at::kFloat)) : at::Tensor();
  p.out_ = args.write(in_parts ? sums : out);
  ImplicitGemmSpec spec = spec_of(*plan);
  spec.parts = in_parts || of_pieces;
  if (of_pieces) spec.out_vec8 = false;
  const bool adds_bias = bias.defined() && !in_parts;
  spec.has_bias = adds_bias;
  spec.deep = is_deep(x, places, taps);
  if (adds_bias) p.bias = args.read(bias);
  if (largest.defined()) {
    spec.scaled = true;
    p.largest = args.read(largest);
  }
  args.work = work_of(p, dtype);
  launch(current(x), kernel::implicit_gemm(dtype, ImplicitGemmMAKES::positions), spec, p, args, plan->grid);
  if (in_parts) add_split_sums(sums, bias, out.view({p.m, out_channels}));
  return out;
}

// Results are channels-last.
at::Tensor gathered_forward(const ConvCall& call, const GatheredPlan& plan) {
  const ConvGeometry& g = call.problem.g;
  const Operands operands(call, plan, call.image, call.weight);
  const at::Tensor out =
      positions(taps_of(g), operands.first(), operands.second(), call.bias, g.out_size, call.problem.out_channels,
                call.problem.groups, call.image.scalar_type(), operands.largest());
  return channels_first(out, call.image.dim());
}

at::Tensor gathered_backward_input(const ConvCall& call, const GatheredPlan& plan) {
  const ConvGeometry& g = call.problem.g;
  const int64_t groups = call.problem.groups;
  const at::Tensor weight = call.weight.contiguous(), &grad = call.places, &bias = call.bias;
  // [groups * channels, out channels / groups, ...]: out channels are what is summed over.
  const int64_t per_group = weight.size(0) / groups, channels = weight.size(1);
  const at::Tensor turned = weight.reshape({groups, per_group, channels, g.kernel[0], g.kernel[1], g.kernel[2]})
                                .transpose(1, 2)
                                .reshape({groups * channels, per_group, g.kernel[0], g.kernel[1], g.kernel[2]});
  const Operands operands(call, plan, grad, turned);
  const at::Tensor image = operands.first();
  // Places of the input whose rests by the stride are equal see the same taps: each such class is a result of stride 1.
  const auto class_of = [&](int32_t rest, size_t d, ConvTaps& taps) {
    const int32_t s = g.stride[d], step = s / std::gcd(s, g.dilation[d]);
    int32_t first = 0;
    while (first < g.kernel[d] && (rest + g.pad[d] - first * g.dilation[d]) % s != 0) ++first;
    taps.kernel[d] = first < g.kernel[d] ? ceil_div(g.kernel[d] - first, step) : 0;
    taps.mul[d] = 1;
    taps.off[d] = (rest + g.pad[d] - first * g.dilation[d]) / s;
    taps.step[d] = -g.dilation[d] * step / s;
    return std::pair{first, step};
  };
  const bool one_class = g.stride == Extent{1, 1, 1};
  at::Tensor out;
  if (!one_class) out = at::empty({grad.size(0), g.size[0], g.size[1], g.size[2], groups * channels}, grad.options());
  const Extent classes{std::min(g.stride[0], g.size[0]), std::min(g.stride[1], g.size[1]),
                       std::min(g.stride[2], g.size[2])};
  for (int64_t i = 0; i < ConvGeometry::volume(classes); ++i) {
    const auto at = static_cast<int32_t>(i);
    const Extent rest{at / (classes[1] * classes[2]), at / classes[2] % classes[1], at % classes[2]};
    ConvTaps taps{};
    Extent places{};
    at::Tensor w = turned, part_of_out = out;
    for (size_t d = 0; d < 3; ++d) {
      const auto [first, step] = class_of(rest[d], d, taps);
      places[d] = ceil_div(g.size[d] - rest[d], g.stride[d]);
      const auto dim = static_cast<int64_t>(d);
      if (taps.kernel[d] != 0) w = w.slice(dim + 2, first, std::nullopt, step);
      if (!one_class) part_of_out = part_of_out.slice(dim + 1, rest[d], std::nullopt, g.stride[d]);
    }
    if (ConvGeometry::volume(taps.kernel) == 0) {  // no tap leads there
      bias.defined() ? part_of_out.copy_(bias) : part_of_out.zero_();
      continue;
    }
    const at::Tensor part = positions(taps, image, operands.second(w), bias, places, groups * channels, groups,
                                      grad.scalar_type(), operands.largest());
    if (one_class) return channels_first(part, grad.dim());
    part_of_out.copy_(part);
  }
  return channels_first(out, grad.dim());
}

at::Tensor gathered_backward_weight(const ConvCall& call, const GatheredPlan& gathered) {
  const ConvGeometry& g = call.problem.g;
  const int64_t groups = call.problem.groups;
  const at::Tensor &x = call.image, &grad = call.places;
  const int64_t out_channels = grad.size(1);
  const Operands operands(call, gathered, x, grad);
  const at::Tensor image = operands.images(Operand::first), gy = operands.images(Operand::second);
  const ConvTaps taps = taps_of(g);
  ImplicitGemmParams p{};
  TensorArgs args;
  p.x = args.read(image);
  p.w = args.read(gy);
  set_gather(p, image, g.out_size, groups);
  set_taps(p, taps);
  p.m = static_cast<uint32_t>(out_channels / groups);
  p.n = static_cast<uint32_t>(g.taps()) * p.channels;
  p.k = static_cast<uint32_t>(image.size(0)) * p.area;
  p.w_ld = static_cast<uint32_t>(gy.size(4));
  p.w_group = p.m;
  const DType dtype = dtype_of(image, "convolution");
  const auto plan = plan_for(x, {dtype, /*makes_weights=*/true, p.m, p.n, p.k, p.channels, p.groups});
  TORCH_INTERNAL_ASSERT(plan.has_value());
  p.splits = plan->splits;
  const at::Tensor partial = at::empty({p.splits, out_channels, p.n}, x.options().dtype(at::kFloat));
  p.out_ = args.write(partial);
  ImplicitGemmSpec spec = spec_of(*plan);
  spec.deep = is_deep(image, g.out_size, taps);
  if (gathered.scaled) {
    spec.scaled = true;
    p.largest = args.read(operands.largest());
  }
  args.work = work_of(p, dtype);
  launch(current(x), kernel::implicit_gemm(dtype, ImplicitGemmMAKES::weights), spec, p, args, plan->grid);
  const at::Tensor total = p.splits == 1 ? partial[0] : at::sum(partial, at::IntArrayRef{0});
  const at::Tensor last = total.view({out_channels, g.kernel[0], g.kernel[1], g.kernel[2], p.channels})
                              .narrow(4, 0, x.size(1) / groups)
                              .to(x.scalar_type());
  return channels_first(last, x.dim());
}

}  // namespace

at::Tensor launch_gathered(const ConvCall& call, const GatheredPlan& plan) {
  switch (call.problem.pass) {
    case ConvPass::forward: return gathered_forward(call, plan);
    case ConvPass::input: return gathered_backward_input(call, plan);
    case ConvPass::weight: break;
  }
  return gathered_backward_weight(call, plan);
}

}  // namespace aule::ops
