#include "ops/conv/grouped.h"

#include <algorithm>

#include "kernels_conv.gen.h"
#include "ops/conv/division.h"
#include "ops/conv/grouped_plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

GroupedConvProblem problem_of(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& y,
                              int64_t groups, at::MemoryFormat format) {
  return {.g = g,
          .pass = pass,
          .dtype = dtype_of(x, "convolution"),
          .channels_last = format == at::MemoryFormat::ChannelsLast,
          .images = x.size(0),
          .groups = groups,
          .channels = x.size(1) / groups,
          .out_channels = y.size(1) / groups,
          .addresses = address_of(x) | address_of(y)};
}

// [channels of the result, summed channels, taps], or with the taps in front for channels-last.
at::Tensor weight_for(const GroupedConvProblem& p, const at::Tensor& weight) {
  const at::Tensor by_group = weight.reshape({p.groups, p.out_channels, p.channels, p.g.taps()});
  const at::Tensor of_result = p.pass == ConvPass::input ? by_group.transpose(1, 2) : by_group;
  return (p.channels_last ? of_result.permute({3, 0, 1, 2}) : of_result).contiguous();
}

}  // namespace

bool grouped_conv(const ConvGeometry& g, ConvPass pass, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& y, const at::Tensor& bias, int64_t groups, at::MemoryFormat format) {
  const GroupedConvProblem problem = problem_of(g, pass, x, y, groups, format);
  const auto plan = grouped_conv_plan(profile_of(x), problem);
  if (!plan) return false;
  const bool input = pass == ConvPass::input;
  const ConvGeometry::Extent &source = input ? g.out_size : g.size, &result = input ? g.size : g.out_size;
  const at::Tensor w = weight_for(problem, weight);
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
  const int64_t own = input ? problem.channels : problem.out_channels;
  p.summed = static_cast<uint32_t>(input ? problem.out_channels : problem.channels);
  p.channels = static_cast<uint32_t>(groups * own);
  p.source_channels = static_cast<uint32_t>(groups) * p.summed;
  p.strips = plan->strips;
  p.positions = plan->positions;
  set_division(p.by_strips, p.strips);
  set_division(p.by_height, static_cast<uint32_t>(p.height));
  set_division(p.by_channels, problem.channels_last ? plan->blocks : p.channels);
  set_division(p.by_group, static_cast<uint32_t>(own));
  const GroupedConvSpec spec{.local = static_cast<int>(plan->local),
                             .dtype = problem.dtype,
                             .input_gradient = input,
                             .channels_last = problem.channels_last,
                             .kernel_y = g.kernel[1],
                             .kernel_x = g.kernel[2],
                             .stride_y = g.stride[1],
                             .stride_x = g.stride[2],
                             .dilation_y = g.dilation[1],
                             .dilation_x = g.dilation[2],
                             .pad_x = g.pad[2],
                             .taps_x = plan->taps_x,
                             .results = plan->results,
                             .channels = plan->channels,
                             .sums = plan->sums,
                             .block = plan->block,
                             .result_block = plan->result_block,
                             .lanes = plan->lanes,
                             .has_bias = bias.defined()};
  launch(current(x), kernel::grouped_conv(), spec, p, args, plan->grid);
  return true;
}

}  // namespace aule::ops
