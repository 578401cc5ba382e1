// Launches of convolutions of thin groups (depthwise above all): pure functions of sizes and what is known of the
// device.
#pragma once
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"
#include "ops/conv/geometry.h"
#include "ops/conv/halves_plan.h"

namespace aule::ops {

struct GroupedConvProblem {
  ConvGeometry g;
  ConvPass pass = ConvPass::forward;
  DType dtype = DType::f32;
  bool channels_last = false;
  int64_t images = 0, groups = 1;
  int64_t channels = 1, out_channels = 1;  // of a group
  uint64_t addresses = 0;                  // those of the two images in one: what all are aligned to
};

// The result, or the input's gradient, by grouped_conv.comp, which explains its constants.
struct GroupedConvPlan {
  int taps_x = 1, results = 1, channels = 1, block = 1, result_block = 1, lanes = 1;
  bool sums = false;
  uint32_t local = 0;
  uint32_t strips = 0, positions = 0, blocks = 1;  // blocks of channels, where these are last
  Grid grid;
};
// Nothing: the sizes are another kernel's.
std::optional<GroupedConvPlan> grouped_conv_plan(const DeviceProfile& profile, const GroupedConvProblem& problem);
std::string text_of(const GroupedConvPlan& plan);

// The weight's gradient by grouped_conv_weight.comp, likewise.
struct GroupedWeightPlan {
  int rows = 1, taps_x = 1, results = 1, channels = 1, block = 1, gradient_block = 1;
  int lanes = 1, tap_blocks = 1, positions_at_once = 1;
  bool one_gradient = false, whole_strips = false;
  uint32_t local = 0;
  uint32_t strips = 0, positions = 0, each = 0, parts = 1;
  uint32_t lane_blocks = 1, tap_groups = 1;
  Grid grid;
  uint32_t slices = 1;  // of the parts, when these are added (grouped_conv_parts.comp)
};
std::optional<GroupedWeightPlan> grouped_weight_plan(const DeviceProfile& profile, const GroupedConvProblem& problem);
std::string text_of(const GroupedWeightPlan& plan);

}  // namespace aule::ops
