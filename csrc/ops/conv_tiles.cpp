#include "ops/conv_tiles.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels_conv.gen.h"
#include "ops/matrix_layout.h"
#include "ops/tensor_arg.h"

namespace aule::ops {
namespace {

// Rows and columns of out per workgroup and per subgroup, and the step along k.
struct Tile {
  uint32_t bm, bn, wm, wn, bk;
};
constexpr std::array<Tile, 3> kMatrixTiles = {{{128, 128, 64, 32, 64}, {64, 64, 32, 32, 64}, {32, 32, 16, 16, 32}}};
constexpr std::array<Tile, 2> kFloatTiles = {{{128, 128, 0, 0, 16}, {64, 64, 0, 0, 16}}};
constexpr uint64_t kEnough = 128;  // workgroups; Vulkan does not tell how many cores a device has

int64_t chunk_of(const at::Tensor& t) { return 16 / t.element_size(); }
int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// floor(n / d) = (high word of n * factor + n) >> shift for n below 2^31.
void set_division(uint32_t (&by)[2], uint32_t d) {
  const auto shift = static_cast<uint32_t>(std::bit_width(d - 1));
  by[0] = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  by[1] = shift;
}

at::Tensor four_dims(const at::Tensor& t) { return t.dim() == 3 ? t.unsqueeze(2) : t; }
// [..., channels] with the last padded to whole chunks, dense; `t` is [.., channels at 1, ..].
at::Tensor channels_last(const at::Tensor& t) {
  const at::Tensor last = four_dims(t).permute({0, 2, 3, 1});
  const int64_t channels = last.size(3), padded = round_up(channels, chunk_of(t));
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

struct Plan {
  int mat_m = 16, mat_n = 16;
  uint32_t threads = 0;
  Tile tile{};
  uint64_t tiles = 0;
};

bool make_plan(const at::Tensor& t, uint32_t m, uint32_t n, bool weights, Plan& plan) {
  const Caps& caps = caps_of(t);
  const auto count = [&](const Tile& tile) { return uint64_t{ceil_div(m, tile.bm)} * ceil_div(n, tile.bn); };
  if (t.scalar_type() == at::kFloat) {
    plan.threads = 256;
    if (caps.max_workgroup_invocations < 256) return false;
    for (const Tile& tile : kFloatTiles) {
      plan.tile = tile;
      if (count(tile) >= kEnough) break;
    }
    plan.tiles = count(plan.tile);
    return true;
  }
  const MatrixLayout& layout =
      matrix_layout(static_cast<int>(t.get_device()), t.scalar_type() == at::kHalf ? DType::f16 : DType::bf16);
  if (!layout.usable) return false;
  plan.mat_m = layout.m;
  plan.mat_n = layout.n;
  for (const Tile& tile : kMatrixTiles) {
    const uint32_t subgroups = (tile.bm / tile.wm) * (tile.bn / tile.wn),
                   threads = subgroups * static_cast<uint32_t>(layout.subgroup);
    const uint32_t a_row = (weights ? tile.bm : tile.bk) / 8, b_row = (weights ? tile.bn : tile.bk) / 8,
                   a_rows = weights ? tile.bk : tile.bm, b_rows = weights ? tile.bk : tile.bn;
    const uint32_t bytes =
        (a_rows * (a_row + 1) + b_rows * (b_row + 1)) * 16 + subgroups * static_cast<uint32_t>(layout.m * layout.n) * 4;
    if (threads > caps.max_workgroup_invocations || bytes > caps.max_shared_bytes) continue;
    if (threads % a_row != 0 || threads % b_row != 0 || a_rows * a_row % threads != 0 || b_rows * b_row % threads != 0)
      continue;
    // Small subgroups have few registers for the matrices of a large tile.
    if (tile.wm * tile.wn / static_cast<uint32_t>(layout.subgroup) > 64) continue;
    plan.tile = tile;
    plan.threads = threads;
    plan.tiles = count(tile);
    if (plan.tiles >= kEnough) break;  // the largest that fills the device
  }
  return plan.threads != 0;
}

// The members that describe the gathered tensor and the positions: rows of `positions` {height, width}.
void set_gather(ConvTilesParams& p, const at::Tensor& x, int32_t height, int32_t width, int64_t groups) {
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

void set_taps(ConvTilesParams& p, const ConvGeometry& g, bool input_gradient) {
  p.kernel_width = g.kernel[2];
  set_division(p.by_kernel_width, static_cast<uint32_t>(g.kernel[2]));
  for (int d = 0; d < 2; ++d) {
    const auto e = static_cast<size_t>(d + 1);
    p.mul[d] = input_gradient ? 1 : g.stride[e];
    p.off[d] = input_gradient ? g.pad[e] : -g.pad[e];
    p.step[d] = input_gradient ? -g.dilation[e] : g.dilation[e];
    p.div[d] = input_gradient ? g.stride[e] : 1;
  }
}

// x, w and the result are channels-last; w is [groups * n, taps * channels].
at::Tensor positions(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                     const ConvGeometry::Extent& result, int64_t out_channels, int64_t groups, bool input_gradient) {
  const at::Tensor out = at::empty({x.size(0), result[1], result[2], out_channels}, x.options());
  ConvTilesParams p{};
  TensorArgs args;
  p.x = args.read(x);
  p.w = args.read(w);
  p.out_ = args.write(out);
  if (bias.defined()) p.bias = args.read(bias);
  set_gather(p, x, result[1], result[2], groups);
  set_taps(p, g, input_gradient);
  p.m = static_cast<uint32_t>(x.size(0)) * p.area;
  p.n = static_cast<uint32_t>(out_channels / groups);
  p.k = static_cast<uint32_t>(g.kernel[1] * g.kernel[2]) * p.channels;
  p.w_ld = p.k;
  p.w_group = p.n * p.k;
  p.out_ld = static_cast<uint32_t>(out_channels);
  p.out_group = p.n;
  p.splits = 1;
  Plan plan;
  TORCH_INTERNAL_ASSERT(make_plan(x, p.m, p.n, /*weights=*/false, plan));
  const Tile& tile = plan.tile;
  const int strided = p.div[0] != 1 || p.div[1] != 1, out_vec = p.n % 8 == 0 && x.scalar_type() != at::kFloat;
  launch(current(x), kernel::conv_tiles(dtype_of(x, "convolution"), ConvTilesMAKES::positions),
         Spec{plan.mat_m, plan.mat_n, plan.threads, tile.bm, tile.bn, tile.wm, tile.wn, tile.bk, strided, out_vec,
              bias.defined() ? 1 : 0},
         p, args, linear_grid(plan.tiles * p.groups));
  return out;
}

}  // namespace

bool conv_fits_tiles(const ConvGeometry& g, const at::Tensor& x, int64_t channels, int64_t out_channels,
                     int64_t groups) {
  const Caps& caps = caps_of(x);
  if (caps.kind == Caps::Kind::cpu && caps.subgroup_shuffle)
    return false;  // columns and gemm_lanes.comp have no barrier
  if (x.dim() > 4 || g.size[0] != 1 || g.kernel[0] != 1 || g.pad[0] != 0) return false;
  const int64_t e = chunk_of(x);
  if (groups != 1 && (channels / groups % e != 0 || out_channels / groups % e != 0)) return false;
  // A few channels are mostly padding.
  if (channels / groups < 3 || out_channels / groups < 3) return false;
  const int64_t taps = int64_t{g.kernel[1]} * g.kernel[2], largest = int64_t{1} << 30,
                positions =
                    x.size(0) * std::max(int64_t{g.size[1]} * g.size[2], int64_t{g.out_size[1]} * g.out_size[2]);
  const int64_t wide = round_up(std::max(channels, out_channels), e);
  if (positions >= largest || positions * wide / e >= largest * 4 || taps * wide >= largest ||
      wide * wide / groups * taps >= largest)
    return false;
  Plan plan;
  return make_plan(x, 64, 64, false, plan) && make_plan(x, 64, 64, true, plan);
}

at::Tensor conv_tiles_forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias, int64_t groups) {
  const at::Tensor image = channels_last(x), w = channels_last(weight);
  return back(positions(g, image, w, bias, g.out_size, weight.size(0), groups, false), x.dim());
}

at::Tensor conv_tiles_backward_input(const ConvGeometry& g, const at::Tensor& weight, const at::Tensor& grad,
                                     int64_t groups) {
  // [groups * channels, taps, out channels / groups]: out channels are what is summed over.
  const at::Tensor four = four_dims(weight);
  const int64_t per_group = four.size(0) / groups, channels = four.size(1);
  const at::Tensor turned = four.view({groups, per_group, channels, four.size(2), four.size(3)})
                                .transpose(1, 2)
                                .reshape({groups * channels, per_group, four.size(2), four.size(3)});
  const at::Tensor image = channels_last(grad), w = channels_last(turned);
  return back(positions(g, image, w, {}, g.size, groups * channels, groups, true), grad.dim());
}

at::Tensor conv_tiles_backward_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& grad,
                                      int64_t groups) {
  const at::Tensor image = channels_last(x), gy = channels_last(grad);
  const int64_t out_channels = grad.size(1);
  ConvTilesParams p{};
  TensorArgs args;
  p.x = args.read(image);
  p.w = args.read(gy);
  set_gather(p, image, g.out_size[1], g.out_size[2], groups);
  set_taps(p, g, false);
  p.m = static_cast<uint32_t>(out_channels / groups);
  p.n = static_cast<uint32_t>(g.kernel[1] * g.kernel[2]) * p.channels;
  p.k = static_cast<uint32_t>(image.size(0)) * p.area;
  p.w_ld = static_cast<uint32_t>(gy.size(3));
  p.w_group = p.m;
  Plan plan;
  TORCH_INTERNAL_ASSERT(make_plan(x, p.m, p.n, /*weights=*/true, plan));
  // The positions are shared between as many workgroups as fill the device, each with some steps to do.
  const Tile& tile = plan.tile;
  const uint64_t products = plan.tiles * p.groups;
  p.splits = static_cast<uint32_t>(
      std::clamp<uint64_t>(2 * kEnough / products, 1, std::max<uint64_t>(1, p.k / (uint64_t{tile.bk} * 8))));
  const at::Tensor partial = at::empty({p.splits, out_channels, p.n}, x.options().dtype(at::kFloat));
  p.out_ = args.write(partial);
  launch(current(x), kernel::conv_tiles(dtype_of(x, "convolution"), ConvTilesMAKES::weights),
         Spec{plan.mat_m, plan.mat_n, plan.threads, tile.bm, tile.bn, tile.wm, tile.wn, tile.bk, 0, 0, 0}, p, args,
         linear_grid(products * p.splits));
  const at::Tensor total = p.splits == 1 ? partial[0] : at::sum(partial, at::IntArrayRef{0});
  const at::Tensor last = total.view({out_channels, g.kernel[1], g.kernel[2], p.channels})
                              .narrow(3, 0, x.size(1) / groups)
                              .to(x.scalar_type());
  return back(last, x.dim());
}

}  // namespace aule::ops
