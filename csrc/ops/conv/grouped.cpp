// Convolutions of thin groups, depthwise above all, without copies between memory formats (grouped_conv.comp,
// grouped_conv_weight.comp).
#include <ATen/ops/empty.h>

#include "kernels_conv.gen.h"
#include "ops/conv/division.h"
#include "ops/conv/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// [channels of the result, summed channels, taps], or with the taps in front for channels-last.
at::Tensor weight_for(const ConvProblem& p, const at::Tensor& weight) {
  const at::Tensor by_group = weight.reshape({p.groups, p.out_channels / p.groups, p.channels / p.groups, p.g.taps()});
  const at::Tensor of_result = p.pass == ConvPass::input ? by_group.transpose(1, 2) : by_group;
  return (p.channels_last ? of_result.permute({3, 0, 1, 2}) : of_result).contiguous();
}

// weight = the sum of its parts.
void add_parts(const at::Tensor& parts, const at::Tensor& weight, uint32_t slices) {
  GroupedConvPartsParams p{};
  TensorArgs args;
  p.part = args.read(parts);
  p.result = args.write(weight);
  p.n = static_cast<uint32_t>(weight.numel());
  p.parts = static_cast<uint32_t>(parts.size(0));
  const uint32_t columns = slices == 1 ? 64 : 16;
  launch(current(weight), kernel::grouped_conv_parts(),
         {.local = columns * slices, .dtype = dtype_of(weight, "convolution"), .slices = slices}, p, args,
         linear_grid(ceil_div(p.n, columns)));
}

// The constants that both kernels have.
template <class Spec, class Plan>
Spec spec_of(const ConvProblem& problem, const Plan& plan) {
  const ConvGeometry& g = problem.g;
  Spec spec;
  spec.local = static_cast<int>(plan.local);
  spec.dtype = problem.dtype;
  spec.channels_last = problem.channels_last;
  spec.kernel_y = g.kernel[1];
  spec.kernel_x = g.kernel[2];
  spec.stride_y = g.stride[1];
  spec.stride_x = g.stride[2];
  spec.dilation_y = g.dilation[1];
  spec.dilation_x = g.dilation[2];
  spec.pad_x = g.pad[2];
  spec.taps_x = plan.taps_x;
  spec.results = plan.results;
  spec.channels = plan.channels;
  spec.block = plan.block;
  spec.lanes = plan.lanes;
  return spec;
}

}  // namespace

at::Tensor launch_grouped(const ConvCall& call, const GroupedConvPlan& plan) {
  const ConvProblem& problem = call.problem;
  const ConvGeometry& g = problem.g;
  const bool input = problem.pass == ConvPass::input;
  const at::Tensor operand = call.operand().contiguous(call.format),
                   made = at::empty(call.result_sizes, operand.options().memory_format(call.format));
  const at::Tensor &x = input ? made : operand, &y = input ? operand : made, &bias = call.bias;
  const ConvGeometry::Extent &source = input ? g.out_size : g.size, &result = input ? g.size : g.out_size;
  const at::Tensor w = weight_for(problem, call.weight);
  GroupedConvParams p{};
  TensorArgs args;
  p.source = args.read(input ? y : x);
  p.w = args.read(w);
  if (bias.defined()) p.bias = args.read(bias);
  p.result = args.write(input ? x : y);
  p.source_height = source[1];
  p.source_width = source[2];
  p.height = result[1];
  p.width = result[2];
  p.pad_y = g.pad[1];
  p.summed = static_cast<uint32_t>(problem.summed());
  p.channels = static_cast<uint32_t>(input ? problem.channels : problem.out_channels);
  p.source_channels = static_cast<uint32_t>(input ? problem.out_channels : problem.channels);
  p.strips = plan.strips;
  p.positions = plan.positions;
  set_division(p.by_strips, p.strips);
  set_division(p.by_height, static_cast<uint32_t>(p.height));
  set_division(p.by_channels, problem.channels_last ? plan.blocks : p.channels);
  set_division(p.by_group, p.channels / static_cast<uint32_t>(problem.groups));
  auto spec = spec_of<GroupedConvSpec>(problem, plan);
  spec.input_gradient = input;
  spec.sums = plan.sums;
  spec.result_block = plan.result_block;
  spec.has_bias = bias.defined();
  args.work = conv_work(g, x, y, problem.groups);
  launch(current(x), kernel::grouped_conv(), spec, p, args, plan.grid);
  return made;
}

at::Tensor launch_grouped_weight(const ConvCall& call, const GroupedWeightPlan& plan) {
  const ConvProblem& problem = call.problem;
  const ConvGeometry& g = problem.g;
  const at::Tensor x = call.image.contiguous(call.format), y = call.places.contiguous(call.format),
                   weight = call.empty_result(x.scalar_type());
  const bool in_parts = plan.parts != 1;
  const at::Tensor sums =
      in_parts ? at::empty({plan.parts, weight.numel()}, weight.options().dtype(at::kFloat)) : weight;
  GroupedConvWeightParams p{};
  TensorArgs args;
  p.image = args.read(x);
  p.grad = args.read(y);
  p.w = args.write(sums);
  p.image_height = g.size[1];
  p.image_width = g.size[2];
  p.height = g.out_size[1];
  p.width = g.out_size[2];
  p.pad_y = g.pad[1];
  p.image_channels = static_cast<uint32_t>(x.size(1));
  p.channels = static_cast<uint32_t>(y.size(1));
  p.summed = static_cast<uint32_t>(problem.channels / problem.groups);
  p.outs = static_cast<uint32_t>(problem.out_channels / problem.groups);
  p.strips = plan.strips;
  p.positions = plan.positions;
  p.each = plan.each;
  p.lane_blocks = plan.lane_blocks;
  p.tap_groups = plan.tap_groups;
  set_division(p.by_strips, p.strips);
  set_division(p.by_height, static_cast<uint32_t>(p.height));
  auto spec = spec_of<GroupedConvWeightSpec>(problem, plan);
  spec.result_dtype = dtype_of(sums, "convolution");
  spec.rows = plan.rows;
  spec.one_gradient = plan.one_gradient;
  spec.gradient_block = plan.gradient_block;
  spec.tap_blocks = plan.tap_blocks;
  spec.positions = plan.positions_at_once;
  spec.whole_strips = plan.whole_strips;
  args.work = conv_work(g, x, y, problem.groups);
  launch(current(x), kernel::grouped_conv_weight(), spec, p, args, plan.grid);
  if (in_parts) add_parts(sums, weight, plan.slices);
  return weight;
}

}  // namespace aule::ops
