// Convolutions by halo_conv.comp and halo_conv_weight.comp, channels-last throughout: other layouts are converted on
// the way in.
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "kernels_conv.gen.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/division.h"
#include "ops/conv/launch.h"
#include "ops/conv/pieces.h"
#include "ops/matmul/kernels/splits.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

HaloProblem halo_problem(const ConvProblem& p) { return {p.g, p.pass, p.dtype, p.images, p.channels, p.out_channels}; }

// The members that describe positions, which both kernels have.
template <class Params>
void set_positions(Params& p, const ConvGeometry& g, const FlatPositions& f, int64_t images) {
  p.pitch = f.pitch;
  p.rows = f.rows;
  p.strips = f.strips;
  p.strip_width = f.strip_width;
  p.image_planes = static_cast<uint32_t>(f.places[0]);
  p.planes = static_cast<uint32_t>(images) * p.image_planes;
  for (size_t d = 0; d < 2; ++d) p.out_size[d] = static_cast<uint32_t>(f.places[d + 1]);
  for (size_t d = 0; d < 3; ++d) {
    p.size[d] = f.size[d];
    p.first[d] = f.first[d];
  }
  p.mul_z = f.taps.mul[0];
  p.step_z = f.taps.step[0];
  p.kernel_depth = f.taps.kernel[0];
  p.kernel_height = f.taps.kernel[1];
  p.kernel_width = f.taps.kernel[2];
  p.tap_column = f.tap_column;
  p.tap_row = f.tap_row;
  for (size_t d = 0; d < 2; ++d) {
    p.stride[d] = f.stride[d];
    p.pad[d] = static_cast<uint32_t>(g.pad[d + 1]);
  }
  set_division(p.by_pitch, p.pitch);
  set_division(p.by_rows, p.rows);
  set_division(p.by_strips, p.strips);
  set_division(p.by_planes, p.image_planes);
}

// Whether places or taps differ along the first axis.
bool is_deep(const FlatPositions& f) {
  return f.size[0] != 1 || f.places[0] != 1 || f.taps.kernel[0] != 1 || f.taps.off[0] != 0;
}

// Elements from tap to tap, if all taps are equally far apart; else 0.
int64_t tap_stride(const at::Tensor& w) {
  int64_t stride = 0, taps = 1;
  for (int64_t d = w.dim() - 1; d >= 2; --d) {
    if (w.size(d) == 1) continue;
    if (taps == 1) stride = w.stride(d);
    if (w.stride(d) != stride * taps) return 0;
    taps *= w.size(d);
  }
  return stride;
}

// The weight in the order of lanes. `turned`: [k, n, ...], else [n, k, ...]. `largest`: of both operands, if they
// are scaled.
at::Tensor packed_weight(const at::Tensor& weight, bool turned, const HaloConvPlan& plan, const at::Tensor& largest) {
  const at::Tensor w = tap_stride(weight) > 0 ? weight : weight.contiguous();
  const int64_t n_axis = turned ? 1 : 0, k_axis = 1 - n_axis;
  HaloPackWeightParams p{};
  p.n = static_cast<uint32_t>(w.size(n_axis));
  p.k = static_cast<uint32_t>(w.size(k_axis));
  p.taps = static_cast<uint32_t>(w[0][0].numel());
  p.matrices_n = round_up(p.n, plan.tile.bn) / 16;
  p.matrices_k = round_up(p.k, plan.tile.bk) / 16;
  p.stride_n = static_cast<uint32_t>(w.stride(n_axis));
  p.stride_k = static_cast<uint32_t>(w.stride(k_axis));
  p.stride_tap = static_cast<uint32_t>(tap_stride(w));
  const int64_t lanes = int64_t{p.taps} * p.matrices_n * p.matrices_k * 32;
  const at::Tensor packed = at::empty({lanes * 8}, w.options().dtype(plan.scaled ? at::kHalf : w.scalar_type()));
  TensorArgs args;
  p.w = args.read(w);
  p.out_ = args.write(packed);
  if (plan.scaled) p.largest = args.read(largest[1]);
  launch(current(w), kernel::halo_pack_weight(), {.scaled = plan.scaled}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(lanes), HaloPackWeightParams::kLocal)));
  return packed;
}

}  // namespace

at::Tensor launch_halo(const ConvCall& call, const HaloConvPlan& plan) {
  const ConvProblem& problem = call.problem;
  const bool of_input = problem.pass == ConvPass::input;
  const int64_t n = of_input ? problem.channels : problem.out_channels;
  const at::Tensor& source = of_input ? call.places : call.image;
  at::Tensor x = source, w = call.weight, largest;
  if (plan.scaled) {
    largest = largest_sizes(x, w, call.shared);
    x = scaled_halves(x, largest[0], call.shared);
    if (!plan.direct) w = scaled_halves(w, largest[1], nullptr);
  } else {
    x = channels_last(x, call.shared);
    if (!plan.direct) w = channels_last(w);
  }
  if (plan.direct) w = packed_weight(w, of_input, plan, largest);
  const FlatPositions flat = flat_positions(halo_problem(problem), plan.strips);
  const at::Tensor out =
      at::empty({problem.images, flat.places[0], flat.places[1], flat.places[2], n}, source.options());
  HaloConvParams p{};
  TensorArgs args;
  p.x = args.read(x);
  p.w = args.read(w);
  if (plan.scaled) p.largest = args.read(largest);
  p.m = static_cast<uint32_t>(flat.count);
  p.n = static_cast<uint32_t>(n);
  p.out_ld = p.n;
  p.k = static_cast<uint32_t>(of_input ? problem.out_channels : problem.channels);
  p.pixel = static_cast<uint32_t>(x.size(4) / 8);
  if (!plan.direct) p.w_pixel = static_cast<uint32_t>(w.size(4) / 8);
  p.chunks = ceil_div(p.pixel * 8, plan.tile.bk);
  p.results = static_cast<uint32_t>(problem.images * ConvGeometry::volume(flat.places));
  p.splits = plan.splits;
  set_positions(p, problem.g, flat, problem.images);
  set_division(p.by_chunks, p.chunks);
  const bool in_parts = plan.splits > 1;
  const at::Tensor sums = in_parts ? at::empty({p.splits, p.results, n}, x.options().dtype(at::kFloat)) : at::Tensor();
  p.out_ = args.write(in_parts ? sums : out);
  const bool adds_bias = call.bias.defined() && !in_parts;
  if (adds_bias) p.bias = args.read(call.bias);
  args.work = conv_work(problem.g, call.image.defined() ? call.image : out.movedim(-1, 1),
                        call.places.defined() ? call.places : out.movedim(-1, 1), 1);
  HaloConvSpec spec = tile_spec(plan);
  spec.out_vec8 = plan.out_vec8;
  spec.has_bias = adds_bias;
  spec.deep = is_deep(flat);
  spec.parts = in_parts || plan.scaled;
  if (flat.phases() != 1) spec.phases = of_input ? 2 : 1;
  const DType multiplied = halo_problem(problem).multiplied();
  launch(current(x), kernel::halo_conv(multiplied, plan.ordered ? 1 : 0), spec, p, args, plan.grid);
  if (in_parts) add_split_sums(sums, call.bias, out.view({p.results, n}));
  return channels_first(out, source.dim());
}

at::Tensor launch_halo_weight(const ConvCall& call, const HaloWeightPlan& plan) {
  const ConvProblem& problem = call.problem;
  const ConvGeometry& g = problem.g;
  at::Tensor x = call.image, dy = call.places, largest;
  if (plan.scaled) {
    largest = largest_sizes(x, dy, call.shared);
    x = scaled_halves(x, largest[0], call.shared);
    dy = scaled_halves(dy, largest[1], call.shared);
  } else {
    x = channels_last(x, call.shared);
    dy = channels_last(dy, call.shared);
  }
  const FlatPositions flat = flat_positions(halo_problem(problem), plan.strips);
  HaloConvWeightParams p{};
  TensorArgs args;
  p.x = args.read(x);
  p.dy = args.read(dy);
  if (plan.scaled) p.largest = args.read(largest);
  p.m = static_cast<uint32_t>(round_up(problem.out_channels, int64_t{16}));  // of any matrices
  p.n = static_cast<uint32_t>(round_up(problem.channels, int64_t{16}));
  p.x_pixel = static_cast<uint32_t>(x.size(4) / 8);
  p.dy_pixel = static_cast<uint32_t>(dy.size(4) / 8);
  p.positions = static_cast<uint32_t>(flat.count);
  p.splits = plan.splits;
  p.per_split = plan.steps;
  set_positions(p, g, flat, problem.images);
  p.tap_groups = plan.groups;
  const at::Tensor sums = at::empty({plan.splits, p.m, g.taps(), p.n}, x.options().dtype(at::kFloat));
  p.out_ = args.write(sums);
  args.work = conv_work(g, call.image, call.places, 1);
  HaloConvWeightSpec spec = tile_spec(plan);
  spec.deep = is_deep(flat);
  spec.phases = flat.phases() == 1 ? 0 : 1;
  launch(current(x), kernel::halo_conv_weight(halo_problem(problem).multiplied()), spec, p, args, plan.grid);
  const int64_t columns = g.taps() * p.n;
  at::Tensor total;
  constexpr uint32_t kFew = 16;  // of many, sums need more invocations than results
  if (plan.splits > 1 && plan.splits <= kFew) {
    total = at::empty({p.m, columns}, call.image.options());
    add_split_sums(sums.view({plan.splits, p.m, columns}), {}, total);
  } else {
    total = plan.splits == 1 ? sums[0] : at::sum(sums, at::IntArrayRef{0});
  }
  const at::Tensor last = total.view({p.m, g.kernel[0], g.kernel[1], g.kernel[2], p.n})
                              .narrow(0, 0, problem.out_channels)
                              .narrow(4, 0, problem.channels)
                              .to(call.image.scalar_type());
  return channels_first(last, call.image.dim());
}

}  // namespace aule::ops
