// The kernels that make a pass of a convolution: a pure function of sizes and of what is known of the device.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "ops/conv/blocks_plan.h"
#include "ops/conv/geometry.h"
#include "ops/conv/grouped_plan.h"
#include "ops/conv/halo/halo_plan.h"
#include "ops/conv/halves_plan.h"
#include "ops/conv/implicit_gemm_plan.h"
#include "ops/matmul/route.h"

namespace aule::ops {

// A pass of the convolution that maps images of `g.size` to places of `g.out_size`. The result of a transposed one is
// the gradient of the images.
struct ConvProblem {
  ConvGeometry g;
  ConvPass pass = ConvPass::forward;
  DType dtype = DType::f32;
  bool only_columns = false;  // float64, integers and complex numbers, whose dtype is not looked at
  bool is_empty = false;      // images or places have no elements
  bool channels_last = false;
  int64_t images = 0, channels = 0, out_channels = 0, groups = 1;  // channels of all groups
  uint64_t addresses = 0;  // of the operands that lie as `channels_last` says, in one; copies of others are aligned
  Float32Precision precision = Float32Precision::highest;

  // Sums of each result, besides those over taps or positions.
  int64_t summed() const {
    return pass == ConvPass::weight ? images : (pass == ConvPass::input ? out_channels : channels) / groups;
  }
};

struct ConvPlan;

struct OneTapPlan {};  // one tap: a matrix product
struct BlocksRoute {   // a strided convolution as one of stride 1 over blocks of places
  BlocksPlan blocks;
  std::shared_ptr<const ConvPlan> inner;
};
struct GatheredPlan {  // products of tiles that are gathered (implicit_gemm.comp)
  int products = 0;    // of 16-bit pieces of float32; 0: of the operands themselves
  bool scaled = false;  // of float32 as scaled halves
};
struct DirectPlan {  // conv_direct.comp
  HalvesPlan halves;
};
struct LoopTooLongPlan {};  // no kernel: the device ends even the loop over one tap of one channel
struct ColumnsPlan {};      // im2col or col2im, and products

// One that composes holds the plan of its part.
struct ConvPlan {
  std::variant<GroupedConvPlan, GroupedWeightPlan, OneTapPlan, BlocksRoute, HaloConvPlan, HaloWeightPlan, GatheredPlan,
               DirectPlan, LoopTooLongPlan, ColumnsPlan>
      kernel;

  // Whether the kernels add a bias of the result's dtype. Others leave it to an operator, before the result is rounded.
  bool adds_bias() const { return !reads_contiguous(); }
  // Whether the operands are copied to PyTorch's contiguous format first.
  bool reads_contiguous() const {
    return std::holds_alternative<DirectPlan>(kernel) || std::holds_alternative<ColumnsPlan>(kernel);
  }
};

// Matrix units of a device that `conv_route` asks for.
struct ConvUnits {
  MatrixUnits of_dtype;   // of multiplied_dtype()
  MatrixUnits of_halves;  // of float16, for float32 problems that allow TF32's precision
};
// The dtype of products of gathered tiles; f32: there are no matrix units for it.
DType multiplied_dtype(const ConvProblem& problem, const Overrides& overrides);

ConvPlan conv_route(const DeviceProfile& profile, const ConvUnits& units, const ConvProblem& problem,
                    const Overrides& overrides);
std::string text_of(const ConvPlan& plan);

}  // namespace aule::ops
