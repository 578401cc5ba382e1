// Sums of convolutions without a matrix product (conv_direct.comp).
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

#include "kernels_conv.gen.h"
#include "ops/conv/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

const at::Tensor& result_of(ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y) {
  return pass == ConvPass::weight ? w : pass == ConvPass::input ? x : y;
}

void launch_kernel(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                   int64_t groups, int64_t images) {
  const at::Tensor& result = result_of(pass, x, w, y);
  if (result.numel() == 0) return;
  ConvDirectParams p{};
  TensorArgs args;
  const auto argument = [&](const at::Tensor& t) { return t.is_same(result) ? args.write(t) : args.read(t); };
  p.x = argument(x);
  p.w = argument(w);
  p.y = argument(y);
  p.n = static_cast<uint64_t>(result.numel());
  set_geometry(p, g);
  p.batch = static_cast<int32_t>(x.size(0));
  p.groups = static_cast<int32_t>(groups);
  p.ci = static_cast<int32_t>(x.size(1) / groups);
  p.co = static_cast<int32_t>(y.size(1) / groups);
  p.images = static_cast<int32_t>(images);
  const auto grad = pass == ConvPass::forward ? ConvDirectGRAD::none
                    : pass == ConvPass::input ? ConvDirectGRAD::input
                                              : ConvDirectGRAD::weight;
  const ConvDirectSpec spec{.dtype = dtype_of(pass == ConvPass::input ? y : x, "convolution"),
                            .result_dtype = dtype_of(result, "convolution")};
  args.work = conv_work(g, x, y, groups);
  launch(current(x), kernel::conv_direct(grad), spec, p, args, linear_grid(ceil_div(p.n, ConvDirectParams::kLocal)));
}

// The gradient of few weights is summed in parts, so that the device has enough to do; then the parts are added.
void launch_once(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                 int64_t groups) {
  const int64_t images = x.size(0), enough = caps_of(x).is_software() ? 1 << 12 : 1 << 18;
  const int64_t wanted = std::min<int64_t>(images, ceil_div(enough, std::max<int64_t>(w.numel(), 1)));
  if (pass != ConvPass::weight || wanted <= 1) return launch_kernel(g, pass, x, w, y, groups, images);
  const int64_t each = ceil_div(images, wanted);
  std::vector<int64_t> shape{ceil_div(images, each)};
  shape.insert(shape.end(), w.sizes().begin(), w.sizes().end());
  const at::Tensor parts = at::empty(shape, w.options().dtype(at::kFloat));
  launch_kernel(g, pass, x, parts, y, groups, each);
  w.copy_(parts.sum(0));
}

// Halves of what is summed over, one after the other. All operands have three spatial dimensions, are contiguous and
// float32.
void add_halves(const HalvesPlan& plan, const DirectProblem& problem, const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& y, int64_t groups) {
  const ConvPass pass = problem.pass;
  if (plan.halves.empty()) return launch_once(problem.g, pass, x, w, y, groups);
  const auto add_half = [&](size_t half, int64_t from, int64_t count, const at::Tensor& to) {
    const auto cut = [&](const at::Tensor& t, int64_t dim) { return t.narrow(dim, from, count).contiguous(); };
    const auto cut_channels = [&](const at::Tensor& t) {  // of every group
      const at::Tensor some = cut(t.view({t.size(0), groups, problem.summed, t.size(2), t.size(3), t.size(4)}), 2);
      return some.view({t.size(0), groups * count, t.size(2), t.size(3), t.size(4)});
    };
    const auto add = [&](const at::Tensor& part_x, const at::Tensor& part_w, const at::Tensor& part_y) {
      add_halves(plan.halves[half], part_of(problem, plan.axis, from, count), part_x, part_w, part_y, groups);
    };
    const bool along_side = plan.axis != kSummedAxis, input = pass == ConvPass::input;
    const auto dim = static_cast<int64_t>(plan.axis) + 2;
    if (pass == ConvPass::weight) return along_side ? add(x, to, cut(y, dim)) : add(cut(x, 0), to, cut(y, 0));
    if (along_side) return add(input ? to : x, cut(w, dim), input ? y : to);
    if (!input) return add(cut_channels(x), cut(w, 1), to);
    const at::Tensor rows = cut(w.view({groups, problem.summed, -1}), 1);
    add(to, rows.view({groups * count, w.size(1), w.size(2), w.size(3), w.size(4)}), cut_channels(y));
  };
  const at::Tensor& result = result_of(pass, x, w, y);
  const at::Tensor rest = at::empty_like(result);
  add_half(0, 0, plan.first, result);
  add_half(1, plan.first, plan.rest, rest);
  result.add_(rest);
}

}  // namespace

at::Tensor launch_direct(const ConvCall& call, const DirectPlan& plan) {
  const ConvProblem& p = call.problem;
  at::Tensor result = call.empty_result(call.result_type);
  if (result.numel() == 0) return result;
  if (p.pass == ConvPass::weight && p.is_empty) return result.zero_();
  const auto tensor = [&](const at::Tensor& t) { return t.defined() ? t.contiguous() : result; };
  const at::Tensor x = tensor(call.image), w = tensor(call.weight), y = tensor(call.places);
  if (plan.halves.halves.empty()) {
    launch_once(p.g, p.pass, x, w, y, p.groups);
    return result;
  }
  const auto wide = [&](const at::Tensor& t) {
    const at::Tensor full = t.dim() == 5 ? t : t.dim() == 4 ? t.unsqueeze(2) : t.unsqueeze(2).unsqueeze(2);
    if (t.scalar_type() == at::kFloat) return full;
    return t.is_same(result) ? at::empty(full.sizes(), t.options().dtype(at::kFloat)) : full.to(at::kFloat);
  };
  const at::Tensor wide_x = wide(x), wide_w = wide(w), wide_y = wide(y);
  add_halves(plan.halves, {p.g, p.pass, p.summed()}, wide_x, wide_w, wide_y, p.groups);
  if (result.scalar_type() != at::kFloat) result.copy_(result_of(p.pass, wide_x, wide_w, wide_y).view(result.sizes()));
  return result;
}

}  // namespace aule::ops
