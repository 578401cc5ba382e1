// Averages of regions of images, bin by bin.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_detection.gen.h"
#include "ops/detection/detection.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/scattered_sum.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Regions {
  const char* op;
  at::Tensor rois;  // contiguous
  double scale;
  int64_t images, channels, height, width, pooled_height, pooled_width, sampling_ratio;
  bool aligned;

  int64_t bins() const { return pooled_height * pooled_width; }
  template <class Params>
  void fill(Params& p, TensorArgs& args, DType compute) const {
    p.rois = args.read(rois);
    p.scale = real_bits(compute, scale);
    p.size[0] = static_cast<int32_t>(height);
    p.size[1] = static_cast<int32_t>(width);
    p.pooled[0] = static_cast<int32_t>(pooled_height);
    p.pooled[1] = static_cast<int32_t>(pooled_width);
    p.images = static_cast<int32_t>(images);
    p.sampling_ratio = static_cast<int32_t>(sampling_ratio);
    p.channels = static_cast<uint32_t>(channels);
  }
};

void check(const Regions& r, const at::Tensor& of) {
  check_floating(r.op, of);
  check_float64(r.op, of);
  check_same_device(r.op, {&of, &r.rois});
  TORCH_CHECK(r.rois.dim() == 2 && r.rois.size(1) == 5, r.op, ": expected rois of shape [regions, 5], got ",
              r.rois.sizes());
  TORCH_CHECK(r.rois.scalar_type() == of.scalar_type(), r.op, ": expected input and rois of one dtype, got ",
              of.scalar_type(), " and ", r.rois.scalar_type());
  TORCH_CHECK(r.pooled_height > 0 && r.pooled_width > 0, r.op, ": expected an output size above 0, got ",
              r.pooled_height, " x ", r.pooled_width);
  constexpr int64_t kMost = 1 << 24;
  TORCH_CHECK_NOT_IMPLEMENTED(r.height < kMost && r.width < kMost && r.sampling_ratio < (1 << 12) &&
                                  r.height * r.width < (int64_t{1} << 31) && r.bins() < (int64_t{1} << 31),
                              r.op, ": sizes of 2^24, planes of 2^31 or 2^12 samples of a bin are too many");
  // The device alone knows how many samples a region has where its own size decides.
  if (r.sampling_ratio > 0)
    check_walk(r.op, caps_of(of), static_cast<uint64_t>(r.sampling_ratio * (5 * r.sampling_ratio + 1) + 4));
}

}  // namespace

at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t pooled_height,
                     int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  TORCH_CHECK(input.dim() == 4, "roi_align: expected an input of four dimensions, got ", input.sizes());
  const Regions r{"roi_align",   rois.contiguous(), spatial_scale, input.size(0),  input.size(1), input.size(2),
                  input.size(3), pooled_height,     pooled_width,  sampling_ratio, aligned};
  check(r, input);
  const std::array<int64_t, 4> sizes{rois.size(0), r.channels, pooled_height, pooled_width};
  if (input.numel() == 0) return at::zeros(sizes, input.options());
  at::Tensor out = at::empty(sizes, input.options());
  if (out.numel() == 0) return out;
  const at::Tensor x = input.contiguous();
  const DType dtype = dtype_of(x, r.op), compute = compute_type(dtype);
  CommandStream& stream = current(x);
  TensorArgs args;
  RoiAlignParams p{};
  r.fill(p, args, compute);
  p.in_ = args.read(x);
  p.out_ = args.write(out);
  p.error = error_address(stream);
  p.tag = error_tag("roi_align, an image's number in rois");
  p.n = static_cast<uint64_t>(out.numel());
  launch(stream, kernel::roi_align(compute), {.dtype = dtype, .aligned = aligned}, p, args,
         linear_grid(ceil_div(p.n, kDetectionLocal)));
  return out;
}

at::Tensor roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, double spatial_scale,
                              int64_t pooled_height, int64_t pooled_width, int64_t batch_size, int64_t channels,
                              int64_t height, int64_t width, int64_t sampling_ratio, bool aligned) {
  const Regions r{"roi_align_backward", rois.contiguous(), spatial_scale,  batch_size, channels, height, width,
                  pooled_height,        pooled_width,      sampling_ratio, aligned};
  check(r, grad);
  const std::array<int64_t, 4> expected{rois.size(0), channels, pooled_height, pooled_width};
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(expected), r.op, ": expected a gradient of shape ",
              at::IntArrayRef(expected), ", got ", grad.sizes());
  const at::Tensor sums = at::zeros({batch_size, channels, height, width}, grad.options().dtype(sum_type_of(grad)));
  if (grad.numel() == 0 || sums.numel() == 0) return sums.to(grad.scalar_type());
  const at::Tensor g = grad.contiguous();
  const DType dtype = dtype_of(g, r.op), compute = compute_type(dtype);
  const bool ordered = sums_in_order(g);
  const Caps& caps = caps_of(g);
  const auto regions = static_cast<uint64_t>(rois.size(0));
  const auto samples = static_cast<uint64_t>(std::max<int64_t>(1, sampling_ratio));
  const uint64_t of_region = static_cast<uint64_t>(r.bins()) * (1 + samples * (1 + 5 * samples)) + 3;
  const uint64_t step = ordered ? std::max<uint64_t>(1, longest_walk(caps) / of_region) : regions;
  for (uint64_t first = 0; first < regions;) {
    const uint64_t last = first + std::min(step, regions - first);
    TensorArgs args;
    RoiAlignBackwardParams p{};
    r.fill(p, args, compute);
    p.grad_out = args.read(g);
    p.grad_in = args.read_write(sums);
    p.first = static_cast<uint32_t>(first);
    p.last = static_cast<uint32_t>(last);
    p.n = static_cast<uint64_t>(ordered ? batch_size * channels : g.numel());
    launch(
        current(g),
        kernel::roi_align_backward(compute, adds_natively(g) ? RoiAlignBackwardADD::native : RoiAlignBackwardADD::cas),
        {.dtype = dtype, .aligned = aligned, .ordered = ordered}, p, args, linear_grid(ceil_div(p.n, kDetectionLocal)));
    first = last;
  }
  return sums.to(grad.scalar_type());
}

}  // namespace aule::ops
