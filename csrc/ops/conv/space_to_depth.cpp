#include "ops/conv/space_to_depth.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels_conv.gen.h"
#include "ops/conv/channels_last.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// With `blocks` as [images, z, y, x, padded].
SpaceToDepthParams params_of(const BlocksPlan& plan, const at::Tensor& image) {
  SpaceToDepthParams p{};
  p.channels = static_cast<uint32_t>(plan.channels);
  p.padded = static_cast<uint32_t>(plan.padded);
  std::copy(plan.g.size.begin(), plan.g.size.end(), p.count);
  std::copy(plan.pad.begin(), plan.pad.end(), p.pad);
  at::Tensor five = image;
  while (five.dim() < 5) five = five.unsqueeze(2);
  for (int64_t d = 0; d < 5; ++d) p.image_strides[d] = five.stride(d);
  for (int64_t d = 0; d < 3; ++d) p.size[d] = static_cast<int32_t>(five.size(d + 2));
  return p;
}
SpaceToDepthSpec spec_of(const BlocksPlan& plan, const at::Tensor& image) {
  return {.size = static_cast<int>(image.element_size()),
          .block_z = static_cast<uint32_t>(plan.block[0]),
          .block_y = static_cast<uint32_t>(plan.block[1]),
          .block_x = static_cast<uint32_t>(plan.block[2])};
}

}  // namespace

at::Tensor image_to_blocks(const BlocksPlan& plan, const at::Tensor& image) {
  const auto& count = plan.g.size;
  const at::Tensor blocks = at::empty({image.size(0), count[0], count[1], count[2], plan.padded}, image.options());
  SpaceToDepthParams p = params_of(plan, image);
  TensorArgs args;
  p.image = args.read(image);
  p.blocks = args.write(blocks);
  p.n = static_cast<uint32_t>(blocks.numel() * blocks.element_size() / 16);
  launch(current(image), kernel::space_to_depth(SpaceToDepthDIRECTION::to_depth), spec_of(plan, image), p, args,
         linear_grid(ceil_div(p.n, SpaceToDepthParams::kLocal)));
  return channels_first(blocks, image.dim());
}

at::Tensor image_from_blocks(const BlocksPlan& plan, const at::Tensor& blocks, at::IntArrayRef sizes,
                             const at::Tensor& bias, at::MemoryFormat format) {
  const at::Tensor dense = channels_last(blocks), image = at::empty(sizes, blocks.options().memory_format(format));
  SpaceToDepthParams p = params_of(plan, image);
  TensorArgs args;
  p.image = args.write(image);
  p.blocks = args.read(dense);
  if (bias.defined()) p.bias = args.read(bias);
  p.n = static_cast<uint32_t>(image.numel());
  SpaceToDepthSpec spec = spec_of(plan, image);
  spec.channels_last = format != at::MemoryFormat::Contiguous;
  launch(current(image), kernel::space_to_depth(SpaceToDepthDIRECTION::to_space), spec, p, args,
         linear_grid(ceil_div(p.n, SpaceToDepthParams::kLocal)));
  return image;
}

at::Tensor weight_to_blocks(const BlocksPlan& plan, const at::Tensor& weight) {
  const auto &b = plan.block, &taps = plan.g.kernel, &k = plan.kernel;
  const int64_t out_channels = weight.size(0);
  at::Tensor w = weight.reshape({out_channels, plan.channels, k[0], k[1], k[2]});
  const std::array<int64_t, 6> more{0, taps[2] * b[2] - k[2], 0, taps[1] * b[1] - k[1], 0, taps[0] * b[0] - k[0]};
  if (more != std::array<int64_t, 6>{}) w = at::constant_pad_nd(w, more, 0);
  w = w.reshape({out_channels, plan.channels, taps[0], b[0], taps[1], b[1], taps[2], b[2]})
          .permute({0, 3, 5, 7, 1, 2, 4, 6})
          .reshape({out_channels, -1, taps[0], taps[1], taps[2]});
  const std::array<int64_t, 8> fill{0, 0, 0, 0, 0, 0, 0, plan.padded - w.size(1)};
  if (fill.back() != 0) w = at::constant_pad_nd(w, fill, 0);
  while (w.dim() > weight.dim()) w = w.squeeze(2);
  return w;
}

at::Tensor weight_from_blocks(const BlocksPlan& plan, const at::Tensor& blocks, int64_t dims) {
  const auto &b = plan.block, &taps = plan.g.kernel, &k = plan.kernel;
  const int64_t out_channels = blocks.size(0);
  at::Tensor w = blocks.narrow(1, 0, plan.channels * ConvGeometry::volume(b))
                     .reshape({out_channels, b[0], b[1], b[2], plan.channels, taps[0], taps[1], taps[2]})
                     .permute({0, 4, 5, 1, 6, 2, 7, 3})
                     .reshape({out_channels, plan.channels, taps[0] * b[0], taps[1] * b[1], taps[2] * b[2]})
                     .narrow(2, 0, k[0])
                     .narrow(3, 0, k[1])
                     .narrow(4, 0, k[2]);
  while (w.dim() > dims) w = w.squeeze(2);
  return w;
}

at::Tensor bias_to_blocks(const BlocksPlan& plan, const at::Tensor& bias) {
  const at::Tensor all = bias.repeat({ConvGeometry::volume(plan.block)});
  return plan.padded == all.size(0) ? all : at::constant_pad_nd(all, {0, plan.padded - all.size(0)}, 0);
}

}  // namespace aule::ops
