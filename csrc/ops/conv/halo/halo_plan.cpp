#include "ops/conv/halo/halo_plan.h"

#include <algorithm>
#include <array>
#include <span>

#include "kernels_conv.gen.h"
#include "kernels_matmul.gen.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/tuning_table.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

using Extent = ConvGeometry::Extent;

struct Tile {
  TileCost cost;         // bk: channels of a chunk
  uint32_t buffers = 2;  // of the weight in shared memory; 0: none, it is packed for the lanes
  uint32_t distance = 1;
};
struct WeightTile {
  TilePlan tile;
  uint32_t taps, buffers;
  double us, ends_us = 0;  // as TileCost's, for 64 positions of all taps
};

// Costs of an H200. What was tried: docs/ladders/halo_conv.md
constexpr std::array kTiles = {
    Tile{{{128, 128, 64, 32, 64}, 0.64, 0.5}, 0, 3}, Tile{{{128, 64, 64, 32, 32}, 0.375, 0.6}, 0, 3},
    Tile{{{64, 128, 64, 32, 32}, 0.36, 0.6}, 0, 3},  Tile{{{128, 128, 64, 32, 32}, 1.05, 4.5}},
    Tile{{{128, 64, 64, 32, 32}, 0.60, 3}},          Tile{{{64, 64, 32, 32, 32}, 0.375, 2.25}},
    Tile{{{32, 32, 16, 16, 32}, 0.225, 1.5}},
};
constexpr std::array kWeightTiles = {
    WeightTile{{64, 32, 32, 16, 32}, 9, 1, 0.9, 4},
    WeightTile{{64, 64, 32, 32, 32}, 3, 2, 0.7, 4},
    WeightTile{{16, 16, 16, 8, 16}, 3, 1, 0.3, 4},
};
constexpr uint32_t kWeightRounds = 2;  // of workgroups that share positions: a multiprocessor has two at a time

// Numbers of an override, or the table's.
std::span<const int> numbers(const Numbers& n) { return {n.values.data(), static_cast<size_t>(n.count)}; }
uint32_t number_at(std::span<const int> n, size_t i) {
  return i < n.size() ? static_cast<uint32_t>(std::max(n[i], 0)) : 0;
}
TilePlan tile_of(std::span<const int> n) {
  return {number_at(n, 0), number_at(n, 1), number_at(n, 2), number_at(n, 3), number_at(n, 4)};
}

// Whether subgroups cut the tile, whole rows of `row` vec8s are loaded at once, and registers suffice: small subgroups
// have few, and those of unknown layouts are assumed to.
bool cuts(const TilePlan& t, const MatrixLayout& layout, uint32_t accumulators) {
  const auto m = static_cast<uint32_t>(layout.m), n = static_cast<uint32_t>(layout.n);
  if (t.wm == 0 || t.wn == 0 || t.bk == 0 || t.bm % t.wm != 0 || t.bn % t.wn != 0) return false;
  if (t.wm % m != 0 || t.wn % n != 0 || t.bk % 8 != 0 || t.bk % n != 0 || t.wn % 8 != 0 || t.bm % 8 != 0) return false;
  return accumulators / static_cast<uint32_t>(layout.subgroup) <= (is_ordered(layout) ? 192 : 64);
}

// The first tap of an axis that reads a phase, and how many do.
uint32_t first_tap(const ConvGeometry& g, size_t axis, uint32_t rest) {
  return (rest + static_cast<uint32_t>(g.pad[axis])) % static_cast<uint32_t>(g.stride[axis]);
}
uint32_t taps_of_phase(const ConvGeometry& g, size_t axis, uint32_t rest) {
  return ceil_div(static_cast<uint32_t>(g.kernel[axis]) - first_tap(g, axis, rest),
                  static_cast<uint32_t>(g.stride[axis]));
}

bool is_served(const DeviceProfile& profile, const MatrixUnits& units, const HaloProblem& p) {
  if (p.dtype != DType::f16 && p.dtype != DType::bf16 && p.dtype != DType::f32) return false;
  if (!units.layout.usable || p.g.taps() == 1 || (p.pass == ConvPass::input && p.g.stride[0] != 1)) return false;
  for (size_t d = 1; d < 3; ++d)  // each phase has taps, and they are neighbours
    if (p.g.stride[d] != 1 && (p.g.dilation[d] != 1 || p.g.kernel[d] < p.g.stride[d])) return false;
  if (p.g.stride[1] * p.g.stride[2] > 16) return false;
  // A stride along one axis only has phases along both, and those need neighbouring taps.
  if (p.g.stride[1] * p.g.stride[2] != 1 && (p.g.dilation[1] != 1 || p.g.dilation[2] != 1)) return false;
  return profile.max_push_constant_bytes >= std::max(sizeof(HaloConvParams), sizeof(HaloConvWeightParams));
}

constexpr uint32_t kMostStrips = 64;

bool set_tile(HaloConvPlan& plan, const Tile& tile, const HaloProblem& p, const DeviceProfile& profile,
              const MatrixLayout& layout, uint32_t strips) {
  const TilePlan& t = tile.cost.tile;
  if (tile.buffers > 2 || !cuts(t, layout, t.wm * t.wn)) return false;
  plan.tile = t;
  plan.mat_m = layout.m;
  plan.mat_n = layout.n;
  plan.local = (t.bm / t.wm) * (t.bn / t.wn) * static_cast<uint32_t>(layout.subgroup);
  const bool turned = p.pass == ConvPass::input;
  const uint32_t row = t.bk / 8, w_row = turned ? t.bn / 8 : row, w_rows = turned ? t.bk : t.bn;
  if (plan.local > profile.max_workgroup_invocations || plan.local % row != 0 || t.bn % 8 != 0 ||
      plan.local % w_row != 0 || w_rows % (plan.local / w_row) != 0)
    return false;
  const FlatPositions flat = flat_positions(p, strips);
  plan.buffers = tile.buffers;
  plan.ordered = is_ordered(layout) && profile.subgroup_shuffle && t.wn % 32 == 0 &&
                 (p.multiplied() == DType::f16 || (profile.float16 && profile.int16));
  plan.direct = tile.buffers == 0;
  if (plan.direct && (!plan.ordered || flat.phases() != 1 || t.bk % 16 != 0)) return false;
  if (flat.phases() == 1 && (plan.direct || tile.distance > 1)) {
    plan.tap_rows = static_cast<uint32_t>(p.g.kernel[1]);
    plan.tap_columns = static_cast<uint32_t>(p.g.kernel[2]);
    const uint32_t taps = plan.tap_rows * plan.tap_columns, steps = plan.direct ? taps * t.bk / 16 : taps;
    if (steps > 64) return false;  // too much code
    for (plan.distance = std::min(tile.distance, steps); steps % plan.distance != 0;) --plan.distance;
  }
  plan.strips = flat.strips;
  plan.phases = flat.phases();
  plan.loads = static_cast<uint32_t>(ceil_div(t.bm + flat.last_shift, plan.local / row));
  if (plan.loads > 12) return false;  // registers
  plan.turned = turned;
  return shared_bytes(kernel::halo_conv(p.multiplied(), plan.ordered ? 1 : 0), tile_spec(plan)) <= profile.shared_bytes;
}

bool set_tile(HaloWeightPlan& plan, const WeightTile& tile, const HaloProblem& p, const DeviceProfile& profile,
              const MatrixLayout& layout, uint32_t strips) {
  const TilePlan& t = tile.tile;
  if (tile.taps == 0 || tile.buffers - 1 > 1 || !cuts(t, layout, t.wm * t.wn * tile.taps) || t.bn % 8 != 0)
    return false;
  plan.tile = t;
  plan.mat_m = layout.m;
  plan.mat_n = layout.n;
  plan.local = (t.bm / t.wm) * (t.bn / t.wn) * static_cast<uint32_t>(layout.subgroup);
  if (plan.local > profile.max_workgroup_invocations) return false;
  for (const uint32_t side : {t.bm, t.bn})
    if (plan.local % (side / 8) != 0 || t.bk % (plan.local / (side / 8)) != 0) return false;
  const FlatPositions flat = flat_positions(p, strips);
  uint32_t span = 0;
  plan.groups = 0;
  for (uint32_t phase = 0; phase < flat.phases(); ++phase) {
    const uint32_t width = taps_of_phase(p.g, 2, phase % flat.stride[1]),
                   taps = width * taps_of_phase(p.g, 1, phase / flat.stride[1]);
    const auto shift_of = [&](uint32_t tap) {
      return tap / width * static_cast<uint32_t>(flat.tap_row) + tap % width * static_cast<uint32_t>(flat.tap_column);
    };
    for (uint32_t tap = 0; tap < taps; tap += tile.taps)
      span = std::max(span, shift_of(std::min(tap + tile.taps, taps) - 1) - shift_of(tap));
    plan.groups += ceil_div(taps, tile.taps);
  }
  plan.strips = flat.strips;
  plan.taps = tile.taps;
  plan.buffers = tile.buffers;
  plan.ahead = round_up(span, t.bk);
  plan.ring = plan.ahead + tile.buffers * t.bk;
  return shared_bytes(kernel::halo_conv_weight(p.multiplied()), tile_spec(plan)) <= profile.shared_bytes;
}

// The tile with the fewest strips that fit the device; `strips` 0: as many as it takes.
template <class Plan, class Tile>
bool set_strips(Plan& plan, const Tile& tile, const HaloProblem& p, const DeviceProfile& profile,
                const MatrixLayout& layout, uint32_t strips) {
  if (strips != 0) return set_tile(plan, tile, p, profile, layout, strips);
  const auto width = static_cast<uint32_t>((p.pass == ConvPass::input ? p.g.size : p.g.out_size)[2]);
  for (strips = 1; strips <= kMostStrips && (strips == 1 || width / strips >= 16); ++strips)
    if (set_tile(plan, tile, p, profile, layout, strips)) return true;
  return false;
}

std::optional<HaloConvPlan> planned(const Tile& tile, const HaloProblem& p, const DeviceProfile& profile,
                                    const MatrixLayout& layout, uint32_t strips, uint32_t workgroups) {
  HaloConvPlan plan;
  if (!set_strips(plan, tile, p, profile, layout, strips)) return std::nullopt;
  const ProductTuning& tuning = product_tuning(profile);
  const FlatPositions flat = flat_positions(p, plan.strips);
  const auto channels = static_cast<uint32_t>(p.pass == ConvPass::input ? p.out_channels : p.channels),
             n = static_cast<uint32_t>(p.pass == ConvPass::input ? p.channels : p.out_channels),
             depth = static_cast<uint32_t>(p.g.kernel[0]), plane = static_cast<uint32_t>(p.g.taps()) / depth;
  const bool of_results = p.pass == ConvPass::input;  // whose phases are others' work
  const uint64_t tiles =
      ceil_div(flat.count, uint64_t{plan.tile.bm}) * ceil_div(n, plan.tile.bn) * (of_results ? flat.phases() : 1);
  TileCost section = tile.cost;
  section.tile.bk *= ceil_div(plane, flat.phases());
  const uint32_t sections = ceil_div(channels, plan.tile.bk) * depth * (of_results ? 1 : flat.phases()),
                 k = sections * section.tile.bk;
  const double sums = static_cast<double>(p.images * ConvGeometry::volume(flat.places)) * n;
  SplitCost best = split_cost(tuning, section, tiles, k, sums, 1);
  const bool adds = profile.max_push_constant_bytes >= sizeof(GemmSplitsParams);
  const uint32_t most = adds && tiles < tuning.workgroups_per_round ? std::min(16u, sections) : 1;
  for (uint32_t wanted = 2; wanted <= most; ++wanted) {
    const SplitCost parts = split_cost(tuning, section, tiles, k, sums, wanted);
    if (parts.us < best.us) best = parts;
  }
  if (workgroups != 0)
    best = split_cost(tuning, section, tiles, k, sums,
                      static_cast<uint32_t>(std::clamp<uint64_t>(workgroups / tiles, 1, sections)));
  plan.splits = best.splits;
  plan.us = best.us;
  plan.out_vec8 = n % 8 == 0;
  plan.scaled = p.dtype == DType::f32;
  plan.grid = linear_grid(tiles * plan.splits);
  return plan;
}

std::optional<HaloWeightPlan> planned(const WeightTile& cost, const HaloProblem& p, const DeviceProfile& profile,
                                      const MatrixLayout& layout, uint32_t strips, uint32_t workgroups) {
  HaloWeightPlan plan;
  if (!set_strips(plan, cost, p, profile, layout, strips)) return std::nullopt;
  const ProductTuning& tuning = product_tuning(profile);
  const FlatPositions flat = flat_positions(p, plan.strips);
  const TilePlan& t = plan.tile;
  const auto depth = static_cast<uint32_t>(p.g.kernel[0]), plane = static_cast<uint32_t>(p.g.taps()) / depth;
  const uint64_t tiles =
      ceil_div(p.out_channels, int64_t{t.bm}) * ceil_div(p.channels, int64_t{t.bn}) * plan.groups * depth;
  const uint32_t steps = static_cast<uint32_t>(ceil_div(flat.count, uint64_t{t.bk})), k = steps * t.bk;
  const double sums = static_cast<double>(p.out_channels * p.channels) * plane * depth;
  const TileCost of_step{t, cost.us, cost.ends_us};
  SplitCost best = split_cost(tuning, of_step, tiles, k, sums, 1);
  const uint64_t wanted = std::min<uint64_t>(kWeightRounds * tuning.workgroups_per_round / tiles, steps / 4);
  if (wanted > 1) best = split_cost(tuning, of_step, tiles, k, sums, static_cast<uint32_t>(wanted));
  if (workgroups != 0)
    best = split_cost(tuning, of_step, tiles, k, sums,
                      static_cast<uint32_t>(std::clamp<uint64_t>(workgroups / tiles, 1, steps)));
  plan.steps = ceil_div(steps, best.splits);
  plan.splits = ceil_div(steps, plan.steps);
  plan.scaled = p.dtype == DType::f32;
  plan.us = best.us;
  plan.grid = linear_grid(tiles * plan.splits);
  return plan;
}

// The plan that takes least time; on a software device the smallest, which is compiled soonest.
template <class Plan, class Tiles>
std::optional<Plan> best_of(const Tiles& tiles, const HaloProblem& p, const DeviceProfile& profile,
                            const MatrixLayout& layout) {
  std::optional<Plan> best;
  for (const auto& tile : tiles) {
    auto plan = planned(tile, p, profile, layout, 0, 0);
    if (plan && profile.is_software()) plan->us = plan->tile.bm;
    if (plan && (!best || plan->us < best->us)) best = plan;
  }
  return best;
}

std::string number(uint64_t x) { return std::to_string(x); }
std::string tile_text(const TilePlan& t, int mat_m, int mat_n) {
  return number(t.bm) + "x" + number(t.bn) + "x" + number(t.bk) + " of " + number(t.wm) + "x" + number(t.wn) +
         " matrices " + std::to_string(mat_m) + "x" + std::to_string(mat_n);
}

}  // namespace

FlatPositions flat_positions(const HaloProblem& p, uint32_t strips) {
  FlatPositions f;
  const bool of_input = p.pass == ConvPass::input;
  f.taps = of_input ? taps_of_input(p.g) : taps_of(p.g);
  f.size = of_input ? p.g.out_size : p.g.size;
  f.places = of_input ? p.g.size : p.g.out_size;
  std::array<int32_t, 3> length{}, places{}, reach{};  // of a row or a column of positions, and from tap to tap
  for (size_t d = 1; d < 3; ++d) {
    const int32_t stride = p.g.stride[d];
    f.stride[d - 1] = static_cast<uint32_t>(stride);
    for (int32_t rest = 0; rest < stride; ++rest) {
      int32_t first = f.taps.off[d], steps = (f.taps.kernel[d] - 1) * f.taps.step[d];
      int32_t size = f.size[d], to = f.places[d];
      if (stride != 1) {
        const auto taps = static_cast<int32_t>(taps_of_phase(p.g, d, static_cast<uint32_t>(rest)));
        first = (rest + p.g.pad[d]) / stride * (of_input ? 1 : -1);
        steps = of_input ? 1 - taps : taps - 1;
        int32_t& phased = of_input ? to : size;
        phased = std::max(0, ceil_div(phased - rest, stride));
      }
      const int32_t last = first + std::max(0, steps);
      first += std::min(0, steps);
      if (stride == 1) f.first[d] = first;
      // A row holds the source's columns, and what is read past its end lies before the next row's first column.
      length[d] = std::max({length[d], size - std::min(0, first), to + std::max(0, last)});
      places[d] = std::max(places[d], to);
      reach[d] = std::max(reach[d], last - first);
    }
  }
  f.first[0] = f.taps.off[0];  // planes are not shifted: each is loaded
  const auto width = static_cast<uint32_t>(places[2]);
  f.strip_width = ceil_div(width, strips);
  f.strips = ceil_div(width, f.strip_width);
  f.pitch = f.strips == 1 ? static_cast<uint32_t>(length[2]) : f.strip_width + static_cast<uint32_t>(reach[2]);
  f.rows = static_cast<uint32_t>(length[1]);
  const int32_t along = of_input ? -1 : 1;
  f.tap_column = f.stride[1] == 1 ? f.taps.step[2] : along;
  f.tap_row = (f.stride[0] == 1 ? f.taps.step[1] : along) * static_cast<int32_t>(f.pitch);
  f.last_shift = static_cast<uint32_t>(reach[1]) * f.pitch + static_cast<uint32_t>(reach[2]);
  f.count = static_cast<uint64_t>(p.images) * static_cast<uint64_t>(f.places[0]) * f.strips * f.rows * f.pitch;
  return f;
}

std::optional<HaloConvPlan> halo_conv_plan(const DeviceProfile& profile, const MatrixUnits& units, const HaloProblem& p,
                                           const Overrides& overrides) {
  if (!is_served(profile, units, p)) return std::nullopt;
  const auto asked = numbers(overrides.halo_tile);
  if (asked.size() >= 5) {
    const Tile tile{
        {tile_of(asked), 0.7, 3}, asked.size() > 7 ? number_at(asked, 7) : 2, std::max(1u, number_at(asked, 8))};
    return planned(tile, p, profile, units.layout, number_at(asked, 5), number_at(asked, 6));
  }
  return best_of<HaloConvPlan>(kTiles, p, profile, units.layout);
}

std::optional<HaloWeightPlan> halo_weight_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                               const HaloProblem& p, const Overrides& overrides) {
  if (!is_served(profile, units, p)) return std::nullopt;
  const auto asked = numbers(overrides.halo_weight_tile);
  if (asked.size() >= 7) {
    const WeightTile tile{tile_of(asked), number_at(asked, 5), number_at(asked, 6), 2.0, 4};
    return planned(tile, p, profile, units.layout, number_at(asked, 7), number_at(asked, 8));
  }
  return best_of<HaloWeightPlan>(kWeightTiles, p, profile, units.layout);
}

std::string text_of(const HaloConvPlan& plan) {
  return "halo_conv " + tile_text(plan.tile, plan.mat_m, plan.mat_n) + " local " + number(plan.local) + " strips " +
         number(plan.strips) + (plan.phases == 1 ? "" : " phases " + number(plan.phases)) + " loads " +
         number(plan.loads) + " buffers " + number(plan.buffers) + " distance " + number(plan.distance) + " splits " +
         number(plan.splits) + (plan.out_vec8 ? " out vec8 " : " ") + (plan.ordered ? "ordered " : "") +
         (plan.scaled ? "scaled halves " : "") + grid_text(plan.grid);
}

std::string text_of(const HaloWeightPlan& plan) {
  return "halo_conv_weight " + tile_text(plan.tile, plan.mat_m, plan.mat_n) + " taps " + number(plan.taps) +
         " groups " + number(plan.groups) + " local " + number(plan.local) + " strips " + number(plan.strips) +
         " ring " + number(plan.ring) + " buffers " + number(plan.buffers) + " splits " + number(plan.splits) + " of " +
         number(plan.steps) + " steps " + (plan.scaled ? "scaled halves " : "") + grid_text(plan.grid);
}

HaloConvSpec tile_spec(const HaloConvPlan& plan) {
  return {.mat_m = plan.mat_m,
          .mat_n = plan.mat_n,
          .local = plan.local,
          .bm = plan.tile.bm,
          .bn = plan.tile.bn,
          .wm = plan.tile.wm,
          .wn = plan.tile.wn,
          .chunk = plan.tile.bk,
          .a_loads = plan.loads,
          .turned = plan.turned,
          .buffers = plan.buffers,
          .tap_rows = plan.tap_rows,
          .tap_columns = plan.tap_columns,
          .distance = plan.distance,
          .direct = plan.direct,
          .scaled = plan.scaled};
}

HaloConvWeightSpec tile_spec(const HaloWeightPlan& plan) {
  return {.mat_m = plan.mat_m,
          .mat_n = plan.mat_n,
          .local = plan.local,
          .bm = plan.tile.bm,
          .bn = plan.tile.bn,
          .wm = plan.tile.wm,
          .wn = plan.tile.wn,
          .bk = plan.tile.bk,
          .taps = plan.taps,
          .ring = plan.ring,
          .ahead = plan.ahead,
          .buffers = plan.buffers,
          .scaled = plan.scaled};
}

}  // namespace aule::ops
