#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/pool/window.h"
#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

using Extent = PoolWindow::Extent;

// The dtype of sums.
at::ScalarType sums_of(const at::Tensor& t) { return t.is_floating_point() ? sum_type_of(t) : at::kLong; }

// Smaller than, or as small as, every element can be.
at::Scalar lowest_of(const at::Tensor& t) {
  if (t.is_floating_point()) return -std::numeric_limits<double>::infinity();
  if (t.scalar_type() == at::kByte) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * t.element_size());
}

struct Range {
  int64_t begin, count;
};
// The window of output `o` along an axis, as the kernels have it: window.glsl.
Range adaptive_range(const PoolWindow& w, size_t d, int64_t o) {
  const int64_t begin = o * w.in[d] / w.out[d], end = ceil_div((o + 1) * w.in[d], w.out[d]);
  return {begin, end - begin};
}
// Cells for which it counts in an average.
int64_t cells(const PoolWindow& w, size_t d, int64_t o, bool count_pad) {
  if (w.adaptive) return adaptive_range(w, d, o).count;
  const int64_t begin = o * w.stride[d] - w.pad[d],
                end = std::min<int64_t>(begin + w.kernel[d], int64_t{w.in[d]} + w.pad[d]);
  return count_pad ? end - begin : std::min<int64_t>(end, w.in[d]) - std::max<int64_t>(begin, 0);
}

// The same windows along axis `d` only, over an input of `size`.
PoolWindow along(const PoolWindow& w, size_t d, const at::Tensor& planes) {
  PoolWindow one;
  one.adaptive = w.adaptive;
  for (size_t i = 0; i < 3; ++i)
    one.in[i] = one.out[i] = static_cast<int32_t>(planes.size(static_cast<int64_t>(i) + 1));
  one.out[d] = w.out[d];
  one.kernel[d] = w.kernel[d];
  one.stride[d] = w.stride[d];
  one.pad[d] = w.pad[d];
  one.dilation[d] = w.dilation[d];
  return one;
}
// Fixed windows of `kernel` taps without padding.
PoolWindow fixed(const PoolWindow& w, size_t d, const at::Tensor& planes, int64_t kernel, int64_t out) {
  PoolWindow one = along(w, d, planes);
  one.adaptive = false;
  one.kernel[d] = static_cast<int32_t>(kernel);
  one.out[d] = static_cast<int32_t>(out);
  one.pad[d] = 0;
  return one;
}
at::Tensor result_of(const PoolWindow& w, const at::Tensor& planes, at::ScalarType dtype) {
  return at::empty({planes.size(0), w.out[0], w.out[1], w.out[2]}, planes.options().dtype(dtype));
}
at::Tensor in_planes(const at::Tensor& t, const Extent& size) { return t.reshape({-1, size[0], size[1], size[2]}); }

// Taps [first, first + count) of every window see this much of the padded input.
Range tap_range(const PoolWindow& w, size_t d, int64_t first, int64_t count) {
  return {first * w.dilation[d], (int64_t{w.out[d]} - 1) * w.stride[d] + (count - 1) * w.dilation[d] + 1};
}
int64_t padded_size(const PoolWindow& w, size_t d) { return tap_range(w, d, 0, w.kernel[d]).count; }

at::Tensor sums_along(const PoolWindow& w, const PoolPlan& plan, size_t d, const at::Tensor& planes) {
  if (plan.axes[d] == PoolAxis::identity) return planes;
  const auto dim = static_cast<int64_t>(d) + 1;
  const auto launch = [](const PoolWindow& one, const at::Tensor& x) {
    const at::Tensor out = result_of(one, x, x.scalar_type());
    launch_avg(one, true, x, out, false, 1);
    return out;
  };
  if (plan.axes[d] == PoolAxis::whole) return launch(along(w, d, planes), planes);
  if (plan.axes[d] == PoolAxis::output_by_output) {
    std::vector<at::Tensor> sums;
    for (int64_t o = 0; o < w.out[d]; ++o) {
      const Range r = adaptive_range(w, d, o);
      sums.push_back(planes.narrow(dim, r.begin, r.count).sum(dim, /*keepdim=*/true));
    }
    return at::cat(sums, dim);
  }
  std::vector<int64_t> pads(static_cast<size_t>(2 * (4 - dim)), 0);  // of the last axis first; negative ones crop
  pads[pads.size() - 2] = w.pad[d];
  pads[pads.size() - 1] = padded_size(w, d) - w.pad[d] - w.in[d];
  const at::Tensor padded = at::constant_pad_nd(planes, pads, 0);
  at::Tensor sum;
  for (int64_t first = 0; first < w.kernel[d]; first += plan.part_taps) {
    const int64_t count = std::min<int64_t>(plan.part_taps, w.kernel[d] - first);
    const Range r = tap_range(w, d, first, count);
    const at::Tensor x = padded.narrow(dim, r.begin, r.count).contiguous();
    const at::Tensor part = launch(fixed(w, d, x, count, w.out[d]), x);
    sum = sum.defined() ? sum.add_(part) : part;
  }
  return sum;
}

// Divides by what every window counts for.
void divide(const PoolWindow& w, const at::Tensor& t, bool count_pad, std::optional<int64_t> divisor) {
  // Whole numbers are rounded towards 0, as their division in the kernel is; one by one that is as by the product.
  const std::optional<std::string_view> rounding =
      t.is_floating_point() ? std::nullopt : std::optional<std::string_view>("trunc");
  if (divisor.has_value()) {
    t.div_(*divisor, rounding);
    return;
  }
  for (size_t d = 0; d < 3; ++d) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < w.out[d]; ++o) counts.push_back(cells(w, d, o, count_pad));
    std::vector<int64_t> shape(4, 1);
    shape[d + 1] = w.out[d];
    t.div_(at::tensor(counts).to(t.device(), t.scalar_type()).view(shape), rounding);
  }
}

// Values and where they come from.
struct Maxima {
  at::Tensor values, indices;
};
Maxima narrow(const Maxima& m, int64_t dim, const Range& r) {
  return {m.values.narrow(dim, r.begin, r.count).contiguous(), m.indices.narrow(dim, r.begin, r.count).contiguous()};
}
Maxima launch_maxima(const PoolWindow& one, const Maxima& from) {
  Maxima to{result_of(one, from.values, from.values.scalar_type()), result_of(one, from.values, at::kLong)};
  launch_max_forward(one, from.values, to.values, to.indices);
  const at::Tensor origin = from.indices.flatten(1).gather(1, to.indices.flatten(1));
  to.indices = origin.view(to.values.sizes());
  return to;
}
// As the kernel does: the first of the largest, and the last NaN of all.
Maxima larger(const Maxima& a, const Maxima& b) {
  const at::Tensor second = b.values.gt(a.values).logical_or_(b.values.isnan());
  return {at::where(second, b.values, a.values), at::where(second, b.indices, a.indices)};
}

// Windows of `kernel` taps, which fit `from` without padding.
Maxima maxima_of_parts(const PoolWindow& w, int64_t most, size_t d, const Maxima& from, int64_t kernel, int64_t out) {
  PoolWindow own = w;
  own.out[d] = static_cast<int32_t>(out);
  Maxima best;
  for (int64_t first = 0; first < kernel; first += most) {
    const int64_t count = std::min(most, kernel - first);
    const Maxima x = narrow(from, static_cast<int64_t>(d) + 1, tap_range(own, d, first, count));
    const Maxima part = launch_maxima(fixed(own, d, x.values, count, out), x);
    best = best.values.defined() ? larger(best, part) : part;
  }
  return best;
}

Maxima maxima_along(const PoolWindow& w, const PoolPlan& plan, size_t d, const Maxima& from) {
  if (plan.axes[d] == PoolAxis::identity) return from;
  const auto dim = static_cast<int64_t>(d) + 1;
  if (plan.axes[d] == PoolAxis::whole) return launch_maxima(along(w, d, from.values), from);
  if (plan.axes[d] == PoolAxis::output_by_output) {
    std::vector<at::Tensor> values, indices;
    PoolWindow own = w;
    own.stride[d] = own.dilation[d] = 1;
    for (int64_t o = 0; o < w.out[d]; ++o) {
      const Range r = adaptive_range(w, d, o);
      const Maxima part = maxima_of_parts(own, plan.part_taps, d, narrow(from, dim, r), r.count, 1);
      values.push_back(part.values);
      indices.push_back(part.indices);
    }
    return {at::cat(values, dim), at::cat(indices, dim)};
  }
  // Padding is -inf. A window of padding alone returns the index of the nearest edge.
  const int64_t before = w.pad[d], after = padded_size(w, d) - before - w.in[d];
  const auto pad = [&](const at::Tensor& t, bool lowest) {
    const auto side = [&](int64_t at, int64_t count) {
      auto shape = t.sizes().vec();
      shape[static_cast<size_t>(dim)] = std::max<int64_t>(count, 0);
      const at::Tensor edge = t.narrow(dim, at, 1).expand(shape);
      return lowest ? edge.clone().fill_(lowest_of(t)) : edge;
    };
    const at::Tensor inside = after < 0 ? t.narrow(dim, 0, t.size(dim) + after) : t;
    return at::cat({side(0, before), inside, side(t.size(dim) - 1, after)}, dim);
  };
  return maxima_of_parts(w, plan.part_taps, d, {pad(from.values, true), pad(from.indices, false)}, w.kernel[d],
                         w.out[d]);
}

}  // namespace

void long_avg_forward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& in, const at::Tensor& out,
                      bool count_pad, std::optional<int64_t> divisor) {
  at::Tensor sums = in_planes(in, w.in).to(sums_of(in));
  for (const size_t d : {2, 1, 0}) sums = sums_along(w, plan, d, sums);
  if (sums.is_alias_of(in)) sums = sums.clone();
  divide(w, sums, count_pad, divisor);
  out.copy_(sums.view(out.sizes()));
}

void long_avg_backward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& grad, const at::Tensor& grad_in,
                       bool count_pad, std::optional<int64_t> divisor) {
  at::Tensor g = in_planes(grad, w.out).to(sums_of(grad), /*non_blocking=*/false, /*copy=*/true);
  divide(w, g, count_pad, divisor);
  for (const size_t d : {0, 1, 2}) {
    if (plan.axes[d] == PoolAxis::identity) continue;
    PoolWindow one = along(w, d, g);
    one.in[d] = w.in[d];
    const at::Tensor wider = at::empty({g.size(0), one.in[0], one.in[1], one.in[2]}, g.options());
    launch_avg(one, false, g, wider, false, 1);
    g = wider;
  }
  grad_in.copy_(g.view(grad_in.sizes()));
}

void long_max_forward(const PoolWindow& w, const PoolPlan& plan, const at::Tensor& in, const at::Tensor& out,
                      const at::Tensor& indices) {
  const at::Tensor planes = in_planes(in, w.in);
  const at::Tensor places = at::arange(planes[0].numel(), planes.options().dtype(at::kLong));
  Maxima m{planes, places.view({1, w.in[0], w.in[1], w.in[2]}).expand(planes.sizes()).contiguous()};
  for (const size_t d : {2, 1, 0}) m = maxima_along(w, plan, d, m);
  out.copy_(m.values.view(out.sizes()));
  indices.copy_(m.indices.view(out.sizes()));
}

void long_max_backward(const PoolWindow& w, const at::Tensor& grad, const at::Tensor& grad_in,
                       const at::Tensor& indices) {
  const at::Tensor flat = in_planes(grad, w.out).flatten(1).to(sums_of(grad));
  const at::Tensor sums = at::empty({flat.size(0), grad_in.numel() / flat.size(0)}, flat.options()).zero_();
  sums.scatter_add_(1, in_planes(indices, w.out).flatten(1), flat);
  grad_in.copy_(sums.view(grad_in.sizes()));
}

}  // namespace aule::ops
