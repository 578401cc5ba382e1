#include "ops/resample/grid_sample.h"

#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "kernels_resample.gen.h"
#include "ops/resample/resample.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/scattered_sum.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// One call: images [N, C, ...] and positions [N, ..., dims], both contiguous.
struct Sampling {
  const char* op;
  at::Tensor input, grid;
  int64_t dims, mode, padding;
  bool align_corners;

  int64_t images() const { return input.size(0); }
  int64_t channels() const { return input.size(1); }
  int64_t positions() const { return grid.numel() / dims; }
  int64_t out_plane() const { return images() == 0 ? 0 : positions() / images(); }
  std::vector<int64_t> out_sizes() const {
    std::vector<int64_t> sizes{images(), channels()};
    for (int64_t d = 1; d <= dims; ++d) sizes.push_back(grid.size(d));
    return sizes;
  }
  // Iterations of one channel's loops over the taps.
  uint64_t iterations() const {
    const uint64_t taps = mode == 1 ? 1 : mode == 2 ? 4 : 2;
    return 1 + taps * (1 + taps) * (dims == 3 ? taps : 1) + taps;
  }
  template <class Params>
  void fill(Params& p) const {
    for (int64_t d = 0; d < 3; ++d) p.in_size[d] = d < 3 - dims ? 1 : static_cast<int32_t>(input.size(d - 1 + dims));
    p.out_plane = static_cast<uint32_t>(out_plane());
    p.channels = static_cast<uint32_t>(channels());
  }
};

Sampling sampling_of(const char* op, int64_t dims, const at::Tensor& input, const at::Tensor& grid, int64_t mode,
                     int64_t padding, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  if (dims == 2)
    at::native::check_grid_sampler_2d(input, grid);
  else
    at::native::check_grid_sampler_3d(input, grid, mode);
  TORCH_CHECK(mode >= 0 && mode <= 2 && padding >= 0 && padding <= 2, op, ": expected modes of 0 to 2, got ", mode,
              " and ", padding);
  check_floating(op, input);
  TORCH_CHECK(grid.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
              grid.scalar_type());
  for (int64_t d = 2; d < input.dim(); ++d)
    TORCH_CHECK_NOT_IMPLEMENTED(input.size(d) < (1 << 24), op, ": a size of ", input.size(d),
                                " is too large for the kernel (2^24)");
  const Sampling s{op, input.contiguous(), grid.contiguous(), dims, mode, padding, align_corners};
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TORCH_CHECK_NOT_IMPLEMENTED(
      s.out_plane() < kMost && input.numel() < kMost * std::max<int64_t>(1, s.images() * s.channels()), op,
      ": a plane has 2^31 cells or more");
  return s;
}

void check_feature(const Sampling& s, KernelId id) {
  TORCH_CHECK_NOT_IMPLEMENTED(supports(s.input.device().index(), id), s.op, ": this device has no float64 arithmetic");
}

at::Tensor sample(const char* op, int64_t dims, const at::Tensor& input, const at::Tensor& grid, int64_t mode,
                  int64_t padding, bool align_corners) {
  const Sampling s = sampling_of(op, dims, input, grid, mode, padding, align_corners);
  at::Tensor out = at::empty(s.out_sizes(), input.options());
  if (out.numel() == 0) return out;
  const DType dtype = dtype_of(input, op);
  const auto kernel = kernel::grid_sample(compute_type(dtype));
  check_feature(s, kernel.id);
  const Caps& caps = caps_of(input);
  TensorArgs args;
  GridSampleParams p{};
  s.fill(p);
  p.in_ = args.read(s.input);
  p.grid = args.read(s.grid);
  p.out_ = args.write(out);
  // The grid is read once for all channels, unless that leaves too few invocations to fill a device.
  constexpr uint64_t kFull = 65536;
  const uint64_t wanted = ceil_div(kFull, static_cast<uint64_t>(s.positions()));
  const uint64_t range =
      std::min<uint64_t>(ceil_div(p.channels, wanted), std::max<uint64_t>(1, longest_walk(caps) / s.iterations()));
  p.range = static_cast<uint32_t>(range);
  p.ranges = narrow<uint32_t>(ceil_div(p.channels, range));
  p.n = static_cast<uint64_t>(s.positions()) * p.ranges;
  launch(current(input), kernel,
         {.dtype = dtype,
          .dims = static_cast<int>(dims),
          .mode = static_cast<int>(mode),
          .padding = static_cast<int>(padding),
          .align_corners = align_corners},
         p, args, linear_grid(ceil_div(p.n, GridSampleParams::kLocal)));
  return out;
}

struct Gradients {
  at::Tensor output;       // contiguous
  at::Tensor input, grid;  // undefined: not wanted; of the input in the arithmetic type
};

void launch_backward(const Sampling& s, const Gradients& g, bool wants_input, bool wants_grid, bool ordered,
                     uint32_t first = 0, uint32_t last = 0) {
  const DType dtype = dtype_of(s.input, s.op), compute = compute_type(dtype);
  const auto kernel = kernel::grid_sample_backward(
      compute, adds_natively(s.input) ? GridSampleBackwardADD::native : GridSampleBackwardADD::cas);
  check_feature(s, kernel.id);
  TensorArgs args;
  GridSampleBackwardParams p{};
  s.fill(p);
  p.grad_out = args.read(g.output);
  p.in_ = args.read(s.input);
  p.grid = args.read(s.grid);
  if (wants_input) p.grad_in = args.read_write(g.input);
  if (wants_grid) p.grad_grid = args.write(g.grid);
  p.n = static_cast<uint64_t>(ordered ? s.images() * s.channels() : s.positions());
  p.first = first;
  p.last = last;
  launch(current(s.input), kernel,
         {.dtype = dtype,
          .dims = static_cast<int>(s.dims),
          .mode = static_cast<int>(s.mode),
          .padding = static_cast<int>(s.padding),
          .align_corners = s.align_corners,
          .wants_input = wants_input,
          .wants_grid = wants_grid,
          .ordered = ordered},
         p, args, linear_grid(ceil_div(p.n, GridSampleBackwardParams::kLocal)));
}

std::tuple<at::Tensor, at::Tensor> backward(const char* op, int64_t dims, const at::Tensor& grad_output,
                                            const at::Tensor& input, const at::Tensor& grid, int64_t mode,
                                            int64_t padding, bool align_corners, std::array<bool, 2> mask) {
  const Sampling s = sampling_of(op, dims, input, grid, mode, padding, align_corners);
  TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(s.out_sizes()), op, ": expected a gradient of shape ",
              at::IntArrayRef(s.out_sizes()), ", got ", grad_output.sizes());
  TORCH_CHECK(grad_output.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(),
              " but found ", grad_output.scalar_type());
  const bool ordered = sums_in_order(input);
  const bool empty = s.positions() == 0 || s.channels() == 0;
  const Caps& caps = caps_of(input);
  Gradients g{grad_output.contiguous(), {}, {}};
  if (!empty && (mask[1] || (mask[0] && !ordered)))
    check_walk(op, caps, static_cast<uint64_t>(s.channels()) * s.iterations());
  if (mask[0]) g.input = at::zeros(input.sizes(), input.options().dtype(sum_type_of(input)));
  if (mask[1]) g.grid = empty ? at::zeros(grid.sizes(), grid.options()) : at::empty(grid.sizes(), grid.options());
  if (!empty && ordered) {
    if (mask[1]) launch_backward(s, g, false, true, false);
    const uint64_t step = std::max<uint64_t>(1, longest_walk(caps) / s.iterations());
    const auto plane = static_cast<uint64_t>(s.out_plane());
    for (uint64_t first = 0; mask[0] && first < plane;) {
      const uint64_t last = first + std::min(step, plane - first);
      launch_backward(s, g, true, false, true, static_cast<uint32_t>(first), static_cast<uint32_t>(last));
      first = last;
    }
  } else if (!empty && (mask[0] || mask[1])) {
    launch_backward(s, g, mask[0], mask[1], false);
  }
  return {mask[0] ? g.input.to(input.scalar_type()) : g.input, g.grid};
}

}  // namespace

at::Tensor grid_sampler_2d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode,
                           int64_t padding_mode, bool align_corners) {
  return sample("grid_sampler_2d", 2, input, grid, interpolation_mode, padding_mode, align_corners);
}

at::Tensor grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode,
                           int64_t padding_mode, bool align_corners) {
  return sample("grid_sampler_3d", 3, input, grid, interpolation_mode, padding_mode, align_corners);
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_2d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t interpolation_mode,
                                                            int64_t padding_mode, bool align_corners,
                                                            std::array<bool, 2> output_mask) {
  return backward("grid_sampler_2d_backward", 2, grad_output, input, grid, interpolation_mode, padding_mode,
                  align_corners, output_mask);
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_3d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t interpolation_mode,
                                                            int64_t padding_mode, bool align_corners,
                                                            std::array<bool, 2> output_mask) {
  return backward("grid_sampler_3d_backward", 3, grad_output, input, grid, interpolation_mode, padding_mode,
                  align_corners, output_mask);
}

}  // namespace aule::ops
