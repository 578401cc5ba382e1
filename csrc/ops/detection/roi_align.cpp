// Averages of samples of regions of images, bin by bin.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "kernels_detection.gen.h"
#include "ops/detection/detection.h"
#include "ops/detection/regions.h"
#include "ops/tensor/device_assert.h"

namespace aule::ops {
namespace {

// Averages, and, of positions, the channels that they are of.
std::pair<at::Tensor, at::Tensor> align(const Regions& r, const at::Tensor& input) {
  r.check(input);
  const auto sizes = r.pooled();
  const at::TensorOptions integers = input.options().dtype(at::kInt);
  if (input.numel() == 0)
    return {at::zeros(sizes, input.options()), r.positions ? at::zeros(sizes, integers) : at::Tensor()};
  at::Tensor out = at::empty(sizes, input.options());
  at::Tensor mapping = r.positions ? at::empty(sizes, integers) : at::Tensor();
  if (out.numel() == 0) return {std::move(out), std::move(mapping)};
  const at::Tensor x = input.contiguous();
  const DType dtype = dtype_of(x, r.op), compute = compute_type(dtype);
  CommandStream& stream = current(x);
  TensorArgs args;
  RoiAlignParams p{};
  r.fill(p, args, compute);
  p.in_ = args.read(x);
  p.out_ = args.write(out);
  if (r.positions) p.mapping = args.write(mapping);
  p.error = error_address(stream);
  p.tag = error_tag(r.positions ? "ps_roi_align, an image's number in rois" : "roi_align, an image's number in rois");
  p.n = static_cast<uint64_t>(out.numel());
  launch(stream, kernel::roi_align(compute), {.dtype = dtype, .aligned = r.aligned, .positions = r.positions}, p, args,
         linear_grid(ceil_div(p.n, RoiAlignParams::kLocal)));
  return {std::move(out), std::move(mapping)};
}

at::Tensor align_backward(const Regions& r, const at::Tensor& grad, const at::Tensor& mapping) {
  r.check_gradient(grad, mapping);
  const auto samples = static_cast<uint64_t>(std::max<int64_t>(1, r.sampling_ratio));
  const uint64_t bins = r.positions ? 1 : static_cast<uint64_t>(r.bins());
  return scatter_bins<RoiAlignBackwardParams>(
      r, grad, bins * (1 + samples * (1 + 5 * samples)) + 3,
      [&](const at::Tensor& g, const RoiAlignBackwardParams& p, const TensorArgs& args, bool ordered) {
        const DType dtype = dtype_of(g, r.op);
        const auto add = adds_natively(g) ? RoiAlignBackwardADD::native : RoiAlignBackwardADD::cas;
        launch(current(g), kernel::roi_align_backward(compute_type(dtype), add),
               {.dtype = dtype, .aligned = r.aligned, .positions = r.positions, .ordered = ordered}, p, args,
               linear_grid(ceil_div(p.n, RoiAlignBackwardParams::kLocal)));
      });
}

}  // namespace

at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                     int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  const auto [images, channels, height, width] = image_sizes("roi_align", input);
  return align({"roi_align", rois.contiguous(), spatial_scale, images, channels, height, width, pooled_height,
                pooled_width, sampling_ratio, aligned},
               input)
      .first;
}

at::Tensor roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, double spatial_scale,
                              int64_t pooled_height, int64_t pooled_width, int64_t batch_size, int64_t channels,
                              int64_t height, int64_t width, int64_t sampling_ratio, bool aligned) {
  return align_backward({"roi_align_backward", rois.contiguous(), spatial_scale, batch_size, channels, height, width,
                         pooled_height, pooled_width, sampling_ratio, aligned},
                        grad, {});
}

std::tuple<at::Tensor, at::Tensor> ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                                int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio) {
  const auto [images, channels, height, width] = image_sizes("ps_roi_align", input);
  return align({"ps_roi_align", rois.contiguous(), spatial_scale, images, channels, height, width, pooled_height,
                pooled_width, sampling_ratio, true, true},
               input);
}

at::Tensor ps_roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& channel_mapping,
                                 double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                                 int64_t sampling_ratio, int64_t batch_size, int64_t channels, int64_t height,
                                 int64_t width) {
  return align_backward({"ps_roi_align_backward", rois.contiguous(), spatial_scale, batch_size, channels, height, width,
                         pooled_height, pooled_width, sampling_ratio, true, true},
                        grad, channel_mapping);
}

}  // namespace aule::ops
