// Regions of interest as torchvision's operators take them, checked, and as the kernels' parameters.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/scattered_sum.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

struct Regions {
  const char* op;
  at::Tensor rois;  // [regions, 5], contiguous: image, x1, y1, x2, y2
  double scale;
  int64_t images, channels, height, width, pooled_height, pooled_width;
  int64_t sampling_ratio = 0;
  bool aligned = false;
  bool positions = false;  // each bin has channels of its own

  int64_t bins() const { return pooled_height * pooled_width; }
  std::array<int64_t, 4> pooled() const {
    return {rois.size(0), positions ? channels / bins() : channels, pooled_height, pooled_width};
  }

  // `of`: the images, or their gradient.
  void check(const at::Tensor& of) const;
  // The gradient of what was pooled, and, if it is defined, the index beside it.
  void check_gradient(const at::Tensor& grad, const at::Tensor& index) const;

  template <class Params>
  void fill(Params& p, TensorArgs& args, DType compute) const {
    p.rois = args.read(rois);
    p.scale = real_bits(compute, scale);
    p.size[0] = static_cast<int32_t>(height);
    p.size[1] = static_cast<int32_t>(width);
    p.pooled[0] = static_cast<int32_t>(pooled_height);
    p.pooled[1] = static_cast<int32_t>(pooled_width);
    p.images = static_cast<int32_t>(images);
    if constexpr (requires { p.sampling_ratio; }) p.sampling_ratio = static_cast<int32_t>(sampling_ratio);
    p.channels = static_cast<uint32_t>(channels);
  }
};

// The sizes [images, channels, height, width].
inline std::array<int64_t, 4> image_sizes(const char* op, const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 4, op, ": expected an input of four dimensions, got ", input.sizes());
  return {input.size(0), input.size(1), input.size(2), input.size(3)};
}

// The images' gradient from `grad`, that of their bins: run(grad, p, args, ordered) launches a kernel that adds to it.
// In order that is one launch for as many regions, of `iterations` each, as an invocation may walk.
template <class Params, class Run>
at::Tensor scatter_bins(const Regions& r, const at::Tensor& grad, uint64_t iterations, const Run& run) {
  const at::Tensor sums = at::zeros({r.images, r.channels, r.height, r.width}, grad.options().dtype(sum_type_of(grad)));
  if (grad.numel() == 0 || sums.numel() == 0) return sums.to(grad.scalar_type());
  const at::Tensor g = grad.contiguous();
  const bool ordered = sums_in_order(g);
  const auto regions = static_cast<uint64_t>(r.rois.size(0));
  const uint64_t step = ordered ? std::max<uint64_t>(1, longest_walk(caps_of(g)) / iterations) : regions;
  for (uint64_t first = 0; first < regions;) {
    const uint64_t last = first + std::min(step, regions - first);
    TensorArgs args;
    Params p{};
    r.fill(p, args, compute_type(dtype_of(g, r.op)));
    p.grad_out = args.read(g);
    p.grad_in = args.read_write(sums);
    p.first = static_cast<uint32_t>(first);
    p.last = static_cast<uint32_t>(last);
    p.n = static_cast<uint64_t>(ordered ? r.images * r.channels : g.numel());
    run(g, p, args, ordered);
    first = last;
  }
  return sums.to(grad.scalar_type());
}

}  // namespace aule::ops
