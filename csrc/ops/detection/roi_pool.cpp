// Maxima, and of positions means, of the cells of regions of images, bin by bin.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>

#include "kernels_detection.gen.h"
#include "ops/detection/detection.h"
#include "ops/detection/regions.h"
#include "ops/tensor/device_assert.h"

namespace aule::ops {
namespace {

Regions regions(const char* op, const at::Tensor& rois, double scale, const std::array<int64_t, 4>& images,
                int64_t pooled_height, int64_t pooled_width, bool positions) {
  return {.op = op,
          .rois = rois.contiguous(),
          .scale = scale,
          .images = images[0],
          .channels = images[1],
          .height = images[2],
          .width = images[3],
          .pooled_height = pooled_height,
          .pooled_width = pooled_width,
          .positions = positions};
}

// The pooled values, and the cell of each, or, of positions, its channel.
std::pair<at::Tensor, at::Tensor> pool(const Regions& r, const at::Tensor& input) {
  r.check(input);
  const auto sizes = r.pooled();
  const at::TensorOptions integers = input.options().dtype(at::kInt);
  if (input.numel() == 0) return {at::zeros(sizes, input.options()), at::full(sizes, r.positions ? 0 : -1, integers)};
  at::Tensor out = at::empty(sizes, input.options()), index = at::empty(sizes, integers);
  if (out.numel() == 0) return {std::move(out), std::move(index)};
  const at::Tensor x = input.contiguous();
  const DType dtype = dtype_of(x, r.op), compute = compute_type(dtype);
  CommandStream& stream = current(x);
  TensorArgs args;
  RoiPoolParams p{};
  r.fill(p, args, compute);
  p.in_ = args.read(x);
  p.out_ = args.write(out);
  p.index = args.write(index);
  p.error = error_address(stream);
  p.tag = error_tag(r.positions ? "ps_roi_pool, an image's number in rois" : "roi_pool, an image's number in rois");
  p.n = static_cast<uint64_t>(out.numel());
  launch(stream, kernel::roi_pool(compute), {.dtype = dtype, .positions = r.positions}, p, args,
         linear_grid(ceil_div(p.n, RoiPoolParams::kLocal)));
  return {std::move(out), std::move(index)};
}

at::Tensor pool_backward(const Regions& r, const at::Tensor& grad, const at::Tensor& index) {
  r.check_gradient(grad, index);
  const at::Tensor cells = index.contiguous();
  // A bin of positions may have all cells of a plane.
  const uint64_t iterations = static_cast<uint64_t>(r.positions ? r.height * (r.width + 1) : r.bins()) + 3;
  return scatter_bins<RoiPoolBackwardParams>(
      r, grad, iterations, [&](const at::Tensor& g, RoiPoolBackwardParams& p, TensorArgs& args, bool ordered) {
        CommandStream& stream = current(g);
        const DType dtype = dtype_of(g, r.op);
        const auto add = adds_natively(g) ? RoiPoolBackwardADD::native : RoiPoolBackwardADD::cas;
        p.index = args.read(cells);
        p.error = error_address(stream);
        p.tag = error_tag("roi_pool_backward, a cell in argmax");
        launch(stream, kernel::roi_pool_backward(compute_type(dtype), add),
               {.dtype = dtype, .positions = r.positions, .ordered = ordered}, p, args,
               linear_grid(ceil_div(p.n, RoiPoolBackwardParams::kLocal)));
      });
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                            int64_t pooled_height, int64_t pooled_width) {
  return pool(
      regions("roi_pool", rois, spatial_scale, image_sizes("roi_pool", input), pooled_height, pooled_width, false),
      input);
}

at::Tensor roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& argmax,
                             double spatial_scale, int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                             int64_t channels, int64_t height, int64_t width) {
  return pool_backward(regions("roi_pool_backward", rois, spatial_scale, {batch_size, channels, height, width},
                               pooled_height, pooled_width, false),
                       grad, argmax);
}

std::tuple<at::Tensor, at::Tensor> ps_roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                               int64_t pooled_height, int64_t pooled_width) {
  return pool(
      regions("ps_roi_pool", rois, spatial_scale, image_sizes("ps_roi_pool", input), pooled_height, pooled_width, true),
      input);
}

at::Tensor ps_roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& channel_mapping,
                                double spatial_scale, int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                                int64_t channels, int64_t height, int64_t width) {
  return pool_backward(regions("ps_roi_pool_backward", rois, spatial_scale, {batch_size, channels, height, width},
                               pooled_height, pooled_width, true),
                       grad, channel_mapping);
}

}  // namespace aule::ops
