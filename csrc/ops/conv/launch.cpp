#include "ops/conv/launch.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "ops/conv/space_to_depth.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

at::Tensor launch_blocks(const ConvCall& call, const BlocksRoute& plan) {
  const BlocksPlan& blocks = plan.blocks;
  ConvProblem inner = call.problem;
  inner.g = blocks.g;
  inner.channels = blocks.padded;
  switch (call.problem.pass) {
    case ConvPass::forward:
      return launch_plan(
          call.with(inner, image_to_blocks(blocks, call.image), weight_to_blocks(blocks, call.weight), {}, call.bias),
          *plan.inner);
    case ConvPass::input: {
      const at::Tensor bias = call.bias.defined() ? bias_to_blocks(blocks, call.bias) : call.bias;
      const at::Tensor result =
          launch_plan(call.with(inner, {}, weight_to_blocks(blocks, call.weight), call.places, bias), *plan.inner);
      return image_from_blocks(blocks, result, call.result_sizes, call.bias, call.format);
    }
    case ConvPass::weight: break;
  }
  const at::Tensor result =
      launch_plan(call.with(inner, image_to_blocks(blocks, call.image), {}, call.places, {}), *plan.inner);
  return weight_from_blocks(blocks, result, call.image.dim());
}

struct Launcher {
  const ConvCall& call;

  at::Tensor operator()(const GroupedConvPlan& plan) const { return launch_grouped(call, plan); }
  at::Tensor operator()(const GroupedWeightPlan& plan) const { return launch_grouped_weight(call, plan); }
  at::Tensor operator()(const OneTapPlan&) const { return launch_pointwise(call); }
  at::Tensor operator()(const BlocksRoute& plan) const { return launch_blocks(call, plan); }
  at::Tensor operator()(const HaloConvPlan& plan) const { return launch_halo(call, plan); }
  at::Tensor operator()(const HaloWeightPlan& plan) const { return launch_halo_weight(call, plan); }
  at::Tensor operator()(const GatheredPlan& plan) const { return launch_gathered(call, plan); }
  at::Tensor operator()(const DirectPlan& plan) const { return launch_direct(call, plan); }
  at::Tensor operator()(const LoopTooLongPlan&) const {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "convolution: a loop over one tap of one channel is too long: ",
                                loop_limit_text(caps_of(call.operand())));
  }
  at::Tensor operator()(const ColumnsPlan&) const { return launch_columns(call); }
};

}  // namespace

at::Tensor ConvCall::empty_result(at::ScalarType type) const {
  return at::empty(result_sizes, operand().options().dtype(type));
}

ConvCall ConvCall::with(ConvProblem other, at::Tensor other_image, at::Tensor other_weight, at::Tensor other_places,
                        at::Tensor other_bias) const {
  return {.problem = std::move(other),
          .image = std::move(other_image),
          .weight = std::move(other_weight),
          .places = std::move(other_places),
          .bias = std::move(other_bias),
          .result_sizes = result_sizes,
          .result_type = result_type,
          .format = format,
          .shared = shared,
          .transposed = transposed};
}

at::Tensor launch_plan(const ConvCall& call, const ConvPlan& plan) { return std::visit(Launcher{call}, plan.kernel); }

Work conv_work(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& places, int64_t groups) {
  const auto products = static_cast<double>(places.numel()) * static_cast<double>(image.size(1) / groups * g.taps());
  return {2 * products, dtype_of(image, "convolution")};
}

}  // namespace aule::ops
