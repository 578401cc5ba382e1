#include "ops/conv/grouped_plan.h"

#include <algorithm>

#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

constexpr int64_t kThin = 16;                 // channels of a group, at most
constexpr int32_t kMostStride = 4;            // along a row
constexpr int kMostSpan = 64;                 // places of a row that pass through registers
constexpr int kMostTaps = 16, kSomeTaps = 8;  // of a row at a time: all of it, or some
constexpr int kMostSums = 64;                 // of weights, in an invocation
constexpr int kBatch = 8;                     // BATCH of grouped_conv_weight.comp
constexpr int64_t kMostTapBlocks = 8;         // in a workgroup
constexpr int64_t kMostStrips = 512;          // of an invocation

int64_t area(const ConvGeometry::Extent& e) { return int64_t{e[1]} * e[2]; }

// One or two dimensions, offsets of 32 bits in an image, rows that registers hold.
bool takes(const GroupedConvProblem& p) {
  const ConvGeometry& g = p.g;
  if (p.groups == 1 || std::max(p.channels, p.out_channels) > kThin) return false;
  if (g.size[0] != 1 || g.out_size[0] != 1 || g.kernel[0] != 1) return false;
  if (g.stride[2] > kMostStride || g.pad[2] > (1 << 15) || g.kernel[2] > (1 << 15)) return false;
  const auto size = static_cast<int64_t>(dtype_size(p.dtype));
  const int64_t channels = p.groups * p.channels, out_channels = p.groups * p.out_channels;
  return channels * area(g.size) * size < kIndexLimit && out_channels * area(g.out_size) * size < kIndexLimit &&
         out_channels * p.channels * g.taps() * size < kIndexLimit &&
         int64_t{g.pad[1]} + int64_t{g.kernel[1]} * g.dilation[1] + g.size[1] < kIndexLimit / 2;
}

// The largest power of two up to `most` that divides all of the numbers.
int common_block(int most, std::initializer_list<int64_t> numbers) {
  int block = most;
  while (block > 1 && std::any_of(numbers.begin(), numbers.end(), [&](int64_t x) { return x % block != 0; }))
    block /= 2;
  return block;
}

int span_of(const GroupedConvProblem& p, const GroupedConvPlan& plan) {
  const int reach = (plan.taps_x - 1) * p.g.dilation[2];
  if (p.pass == ConvPass::input) return (plan.results + reach) / p.g.stride[2] + 2;
  return (plan.results - 1) * p.g.stride[2] + reach + 1;
}

// Elements from an address that allows every access.
int64_t start_of(const GroupedConvProblem& p) { return static_cast<int64_t>(p.addresses / dtype_size(p.dtype) % 16); }

// Vectors of `bytes` that lie side by side in a workgroup: at most 128 bytes, and few lanes idle.
int lanes_for(int64_t vectors, int bytes, int most) {
  int lanes = std::min(most, 128 / bytes);
  while (lanes > 1 && ceil_div(vectors, lanes) * lanes - vectors > vectors / 8) lanes /= 2;
  return lanes;
}

// Neighbours of a row that an invocation takes at once: those that waste least, but whole accesses first.
int weight_results(const GroupedConvProblem& p, int64_t width) {
  if (!p.channels_last && width % 4 == 0) return width % 8 == 0 ? 8 : 4;
  int best = 8;
  for (int results = 7; results >= 4; --results) {
    if (ceil_div(width, results) * results < ceil_div(width, best) * best) best = results;
  }
  return best;
}

// Channels of a load, and how many of those lie side by side in a workgroup: whole sectors, few lanes idle.
void choose_channels(const GroupedConvProblem& p, GroupedConvPlan& plan, int64_t summed, int64_t channels) {
  const auto size = static_cast<int>(dtype_size(p.dtype));
  const bool depthwise = p.channels == 1 && p.out_channels == 1;
  plan.channels = common_block(16 / size, {depthwise ? channels : summed, start_of(p)});
  plan.sums = !depthwise;
  while (plan.channels > 4 && plan.channels * p.g.kernel[2] > kMostTaps * 4) plan.channels /= 2;
  const int64_t own = plan.sums ? 1 : plan.channels, vectors = channels / own;
  plan.lanes = lanes_for(vectors, static_cast<int>(own) * size, 64);
  plan.blocks = narrow<uint32_t>(ceil_div(vectors, plan.lanes));
}

}  // namespace

std::optional<GroupedConvPlan> grouped_conv_plan(const DeviceProfile& profile, const GroupedConvProblem& p) {
  if (!takes(p)) return std::nullopt;
  const ConvGeometry& g = p.g;
  const bool input = p.pass == ConvPass::input;
  const ConvGeometry::Extent &source = input ? g.out_size : g.size, &result = input ? g.size : g.out_size;
  const int64_t summed = input ? p.out_channels : p.channels,
                channels = p.groups * (input ? p.channels : p.out_channels);
  const int size = static_cast<int>(dtype_size(p.dtype)), stride = g.stride[2];
  GroupedConvPlan plan;
  if (p.channels_last) choose_channels(p, plan, summed, channels);
  const bool whole = g.kernel[2] <= kMostTaps && g.kernel[2] * plan.channels <= kMostTaps * 4;
  plan.taps_x = whole ? g.kernel[2] : kSomeTaps;
  // Steps between parts of a row of taps are whole places of the source.
  if (!whole && input && plan.taps_x * g.dilation[2] % stride != 0) return std::nullopt;
  plan.results = plan.channels >= 4 || result[2] <= 4 ? 4 : 8;
  if (input && plan.results % stride != 0) plan.results = stride * (plan.results / stride + (stride == 3 ? 1 : 0));
  if (span_of(p, plan) > kMostSpan) return std::nullopt;
  if (!p.channels_last) {
    const int64_t start = start_of(p);
    const int64_t step = input ? plan.results / stride : int64_t{plan.results} * stride;
    if (whole) plan.block = common_block(16 / size, {source[2], step, start});
    plan.result_block = common_block(16 / size, {result[2], plan.results, start});
  }
  const uint64_t parts = ceil_div(static_cast<uint64_t>(g.kernel[2]), static_cast<uint64_t>(plan.taps_x));
  if (!may_walk(profile, static_cast<uint64_t>(summed) * (1 + static_cast<uint64_t>(g.kernel[1]) * (1 + parts))))
    return std::nullopt;
  plan.strips = narrow<uint32_t>(ceil_div(result[2], plan.results));
  const int64_t positions = p.images * result[1] * plan.strips * (p.channels_last ? 1 : channels);
  const int64_t invocations = positions * plan.blocks * plan.lanes;
  if (positions >= kIndexLimit || invocations >= kIndexLimit * 64) return std::nullopt;
  plan.positions = static_cast<uint32_t>(positions);
  // A large workgroup finds more of its rows in the cache; small ones keep every multiprocessor busy.
  const bool many = invocations >= int64_t{1024} * profile.multiprocessors;
  plan.local = many && !profile.is_software() && profile.max_workgroup_invocations >= 256 ? 256 : 64;
  const uint32_t rows = plan.local / static_cast<uint32_t>(plan.lanes);
  plan.grid = linear_grid(uint64_t{ceil_div(plan.positions, rows)} * plan.blocks);
  if (plan.grid.groups() >= static_cast<uint64_t>(kIndexLimit)) return std::nullopt;
  return plan;
}

std::optional<GroupedWeightPlan> grouped_weight_plan(const DeviceProfile& profile, const GroupedConvProblem& p) {
  if (!takes(p)) return std::nullopt;
  const ConvGeometry& g = p.g;
  const int64_t pairs = p.groups * p.out_channels * p.channels, width = g.out_size[2];
  const int size = static_cast<int>(dtype_size(p.dtype)), stride = g.stride[2];
  const int64_t start = start_of(p);
  const bool software = profile.is_software();
  GroupedWeightPlan plan;
  plan.one_gradient = p.channels != 1 || p.out_channels != 1;
  if (p.channels_last) plan.channels = common_block(4, {plan.one_gradient ? p.channels : pairs, start});
  const bool whole = g.kernel[2] <= kMostTaps && g.kernel[2] * plan.channels <= kMostSums;
  plan.taps_x = whole ? g.kernel[2] : kSomeTaps;
  const int most_rows = std::clamp(kMostSums / (plan.taps_x * plan.channels), 1, g.kernel[1]);
  const int blocks_y = narrow<int>(ceil_div(g.kernel[1], most_rows));
  plan.rows = narrow<int>(ceil_div(g.kernel[1], blocks_y));
  const int64_t tap_blocks = blocks_y * ceil_div(g.kernel[2], plan.taps_x);
  plan.results = weight_results(p, width);
  plan.whole_strips = width % plan.results == 0;
  if ((plan.results - 1) * stride + (plan.taps_x - 1) * g.dilation[2] + 1 > kMostSpan) return std::nullopt;
  if (!p.channels_last) {
    if (whole) plan.block = common_block(16 / size, {g.size[2], int64_t{plan.results} * stride, start});
    plan.gradient_block = common_block(16 / size, {width, plan.results, start});
  }
  plan.strips = narrow<uint32_t>(ceil_div(width, plan.results));
  const int64_t positions = p.images * g.out_size[1] * plan.strips;
  if (positions >= kIndexLimit) return std::nullopt;
  plan.positions = static_cast<uint32_t>(positions);

  const int64_t vectors = pairs / plan.channels;
  if (software) {
    plan.lanes = 16;
  } else {
    if (p.channels_last) plan.lanes = lanes_for(vectors, plan.channels * size, 16);
    const int64_t largest = std::min<int64_t>(256, profile.max_workgroup_invocations);
    if (tap_blocks <= kMostTapBlocks) {  // they read the same rows
      plan.tap_blocks = static_cast<int>(tap_blocks);
      while (plan.lanes > 1 && plan.lanes * plan.tap_blocks * kBatch > largest) plan.lanes /= 2;
    }
    plan.positions_at_once = kBatch;
    while (plan.lanes * plan.tap_blocks * plan.positions_at_once * 2 <= largest &&
           plan.positions_at_once * 8 <= positions)
      plan.positions_at_once *= 2;
  }
  plan.local = static_cast<uint32_t>(plan.lanes * plan.tap_blocks * plan.positions_at_once);
  plan.lane_blocks = narrow<uint32_t>(ceil_div(vectors, plan.lanes));
  plan.tap_groups = narrow<uint32_t>(ceil_div(tap_blocks, plan.tap_blocks));
  // Parts until the device is full, each invocation with some strips; and no sum so long that its error grows.
  const int64_t workgroups = int64_t{plan.lane_blocks} * plan.tap_groups, at_once = plan.positions_at_once,
                enough = software ? 32 : int64_t{4} * profile.multiprocessors;
  const int64_t parts = std::max(std::min(ceil_div(enough, workgroups), positions / (at_once * 4)),
                                 ceil_div(positions, at_once * kMostStrips));
  plan.each = narrow<uint32_t>(ceil_div(positions, std::max<int64_t>(parts, 1)));
  plan.parts = narrow<uint32_t>(ceil_div(positions, plan.each));
  plan.slices = software || plan.parts <= 8 ? 1 : 8;
  const auto walk = static_cast<uint64_t>(ceil_div(plan.each, at_once) * (plan.rows + 1));
  if (!may_walk(profile, walk) || !may_walk(profile, plan.parts)) return std::nullopt;
  if (workgroups * plan.parts >= kIndexLimit || pairs * g.taps() * plan.parts >= kIndexLimit) return std::nullopt;
  plan.grid = linear_grid(static_cast<uint64_t>(workgroups) * plan.parts);
  return plan;
}

std::string text_of(const GroupedConvPlan& plan) {
  const auto number = [](int64_t x) { return std::to_string(x); };
  std::string text = "grouped_conv " + number(plan.results) + " results by " + number(plan.taps_x) + " taps";
  if (plan.channels > 1) text += (plan.sums ? ", sums of " : " of ") + number(plan.channels) + " channels";
  if (plan.lanes > 1) text += ", " + number(plan.lanes) + " lanes";
  if (plan.block > 1) text += ", loads of " + number(plan.block);
  if (plan.result_block > 1) text += ", stores of " + number(plan.result_block);
  return text + ", local " + number(plan.local) + ' ' + grid_text(plan.grid);
}

std::string text_of(const GroupedWeightPlan& plan) {
  const auto number = [](int64_t x) { return std::to_string(x); };
  std::string text = "grouped_conv_weight " + number(plan.rows) + "x" + number(plan.taps_x) + " taps by " +
                     number(plan.results) + (plan.whole_strips ? " whole" : "");
  if (plan.channels > 1)
    text += std::string(plan.one_gradient ? ", one gradient" : "") + " of " + number(plan.channels) + " channels";
  if (plan.lanes > 1) text += ", " + number(plan.lanes) + " lanes";
  if (plan.tap_blocks > 1) text += ", " + number(plan.tap_blocks) + " tap blocks";
  if (plan.positions_at_once > 1) text += ", " + number(plan.positions_at_once) + " positions";
  if (plan.block > 1 || plan.gradient_block > 1)
    text += ", loads of " + number(plan.block) + " and " + number(plan.gradient_block);
  text += ", local " + number(plan.local) + ' ' + grid_text(plan.grid) + " parts " + number(plan.parts);
  return plan.slices == 1 ? text : text + " in " + number(plan.slices) + " slices";
}

}  // namespace aule::ops
