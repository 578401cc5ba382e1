// Convolutions whose tiles hold the positions' halo, so that taps are shifts of them (halo_conv.comp,
// halo_conv_weight.comp): pure functions of sizes and of what is known of the device.
#pragma once
#include <optional>
#include <string>

#include "core/environment.h"
#include "ops/conv/geometry.h"
#include "ops/conv/halves_plan.h"
#include "ops/conv/taps.h"
#include "ops/matmul/route.h"

namespace aule {
struct HaloConvSpec;
struct HaloConvWeightSpec;
}

namespace aule::ops {

struct HaloProblem {
  ConvGeometry g;
  ConvPass pass = ConvPass::forward;
  DType dtype = DType::f16;  // f32: multiplied as scaled halves (half_scale.glsl)
  int64_t images = 0, channels = 0, out_channels = 0;

  DType multiplied() const { return dtype == DType::f32 ? DType::f16 : dtype; }
};

// Flat positions of results (flat_positions.glsl, which says what phases are).
struct FlatPositions {
  ConvGeometry::Extent size, places;  // of the source, of the result
  ConvTaps taps;
  std::array<uint32_t, 2> stride{1, 1};  // of phases of the source or of the result: height, width
  uint32_t pitch = 0, rows = 0, strips = 1, strip_width = 0;
  std::array<int32_t, 3> first{};       // at stride 1: what the least tap of an axis adds to a place
  int32_t tap_column = 0, tap_row = 0;  // the shift from one tap of a phase to the next
  uint32_t last_shift = 0;              // the largest
  uint64_t count = 0;                   // of a phase

  uint32_t phases() const { return stride[0] * stride[1]; }
};
FlatPositions flat_positions(const HaloProblem& problem, uint32_t strips);

// halo_conv.comp, which explains its constants; bk: a chunk of channels.
struct HaloConvPlan {
  TilePlan tile;
  int mat_m = 16, mat_n = 16;
  uint32_t local = 0, strips = 1, phases = 1, loads = 0, buffers = 2, splits = 1;  // splits: of chunks
  bool out_vec8 = false, ordered = false;
  bool direct = false, turned = false;             // the weight is packed; it is read turned, for the input's gradient
  uint32_t tap_rows = 0, tap_columns = 0, distance = 1;                            // 0: taps are not unrolled
  bool scaled = false;  // float32 operands, which become scaled halves; results are float32
  double us = 0;                                                                   // that it is expected to take
  Grid grid;
};
// halo_conv_weight.comp; bm, bn: out channels, channels; bk: positions of a step.
struct HaloWeightPlan {
  TilePlan tile;
  int mat_m = 16, mat_n = 16;
  uint32_t local = 0, strips = 1, taps = 0, groups = 0, ring = 0, ahead = 0, buffers = 1;  // groups of taps of a plane
  uint32_t splits = 1, steps = 0;                                                          // steps of a split
  bool scaled = false;                                                                     // as HaloConvPlan's
  double us = 0;
  Grid grid;
};

// Nothing: the kernels do not serve these sizes, or the device.
std::optional<HaloConvPlan> halo_conv_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                           const HaloProblem& problem, const Overrides& overrides);
std::optional<HaloWeightPlan> halo_weight_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                               const HaloProblem& problem, const Overrides& overrides);
// Constants of the kernels that a plan decides; the launch adds those of the call.
HaloConvSpec tile_spec(const HaloConvPlan& plan);
HaloConvWeightSpec tile_spec(const HaloWeightPlan& plan);
std::string text_of(const HaloConvPlan& plan);
std::string text_of(const HaloWeightPlan& plan);

}  // namespace aule::ops
