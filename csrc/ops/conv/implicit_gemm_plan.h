// A convolution as a matrix product of tiles: a pure function of its sizes and what is known of the device.
#pragma once
#include <optional>
#include <string>

#include "ops/conv/geometry.h"
#include "ops/matmul/route.h"

namespace aule::ops {

// A convolution whose passes may all be products of gathered tiles.
struct ImplicitGemmSizes {
  ConvGeometry g;
  DType dtype = DType::f32;
  int64_t images = 0, channels = 0, out_channels = 0, groups = 1;
};
// Whether the kernel's offsets, tiles and loops allow these sizes.
bool implicit_gemm_takes(const DeviceProfile& profile, const ImplicitGemmSizes& sizes);

// The product of one group: m x n results, each a sum over k. Positions: rows are places of the result, k is (tap,
// channel). Weights: rows are out channels, k are the positions.
struct ImplicitGemmProblem {
  DType dtype = DType::f32;
  bool makes_weights = false;
  uint32_t m = 0, n = 0, k = 0, channels = 0, groups = 1;  // channels of x per group
};

// implicit_gemm.comp, which explains its constants.
struct ImplicitGemmPlan {
  TilePlan tile;
  int mat_m = 16, mat_n = 16;
  uint32_t local = 0, splits = 1;          // over 1: partial sums of k
  bool out_vec8 = false, one_tap = false;  // a step of k is of one tap
  Grid grid;
};

// Nothing: the device has no kernel for it.
std::optional<ImplicitGemmPlan> implicit_gemm_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                                   const ImplicitGemmProblem& g);
std::string text_of(const ImplicitGemmPlan& plan);

}  // namespace aule::ops
