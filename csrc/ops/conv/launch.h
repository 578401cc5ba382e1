// A pass of a convolution, and what launches each kind of plan. Who launches decides nothing: conv/route.h does.
#pragma once
#include <ATen/core/Tensor.h>

#include "core/access.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/route.h"

namespace aule::ops {

// A pass and its operands: of image, weight and places the result is undefined. Tensors have 3 to 5 dimensions, the
// weight [out channels, channels / groups, ...].
struct ConvCall {
  ConvProblem problem;
  at::Tensor image, weight, places;
  at::Tensor bias;  // that the kernels add, contiguous; undefined: none
  at::IntArrayRef result_sizes;
  at::ScalarType result_type;  // wider than the operands' where a sum is not to be rounded yet
  at::MemoryFormat format;     // that the result had best have
  SharedOperand* shared = nullptr;  // an operand that other calls read as well; null: none
  bool transposed = false;     // complex numbers: which of a weight's operands is conjugated

  // An operand, which says dtype and device.
  const at::Tensor& operand() const { return image.defined() ? image : places; }
  at::Tensor empty_result(at::ScalarType type) const;
  // Another pass with the same result, over these operands.
  ConvCall with(ConvProblem other, at::Tensor image, at::Tensor weight, at::Tensor places, at::Tensor bias) const;
};

// The result, in any memory format.
at::Tensor launch_plan(const ConvCall& call, const ConvPlan& plan);

// Each serves all passes.
at::Tensor launch_grouped(const ConvCall& call, const GroupedConvPlan& plan);
at::Tensor launch_grouped_weight(const ConvCall& call, const GroupedWeightPlan& plan);
at::Tensor launch_pointwise(const ConvCall& call);
at::Tensor launch_halo(const ConvCall& call, const HaloConvPlan& plan);
at::Tensor launch_halo_weight(const ConvCall& call, const HaloWeightPlan& plan);
at::Tensor launch_gathered(const ConvCall& call, const GatheredPlan& plan);
at::Tensor launch_direct(const ConvCall& call, const DirectPlan& plan);
at::Tensor launch_columns(const ConvCall& call);

// Arithmetic of a pass of any convolution, for traces: each result is summed over a group's channels and the taps.
Work conv_work(const ConvGeometry& g, const at::Tensor& image, const at::Tensor& places, int64_t groups);

// The members of a kernel's params that describe a geometry.
template <class Params>
void set_geometry(Params& p, const ConvGeometry& g) {
  const auto put = [](auto& to, const ConvGeometry::Extent& from) { std::copy(from.begin(), from.end(), to); };
  put(p.size, g.size);
  put(p.out_size, g.out_size);
  put(p.kernel, g.kernel);
  put(p.stride, g.stride);
  put(p.pad, g.pad);
  put(p.dilation, g.dilation);
}

}  // namespace aule::ops
