#include "ops/conv/implicit_gemm_plan.h"

#include <algorithm>
#include <array>

#include "kernels_conv.gen.h"
#include "kernels_matmul.gen.h"
#include "ops/matmul/tuning_table.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

// Times of an H200: from 8192 x 1024 x 1024 by gemm_simt_large.comp, and a quarter of it and a fifth more.
constexpr std::array<TileCost, 2> kFloatTiles = {{{{128, 128, 0, 0, 16}, 6.6}, {{64, 64, 0, 0, 16}, 2.0}}};

uint64_t count(const TilePlan& t, const ImplicitGemmProblem& g) {
  return uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn);
}

bool fits(const ImplicitGemmPlan& plan, const ImplicitGemmProblem& g, const DeviceProfile& profile, int subgroup) {
  const TilePlan& t = plan.tile;
  const uint32_t local = plan.local;
  const uint32_t a_row = (g.makes_weights ? t.bm : t.bk) / 8, b_row = (g.makes_weights ? t.bn : t.bk) / 8,
                 a_rows = g.makes_weights ? t.bk : t.bm, b_rows = g.makes_weights ? t.bk : t.bn;
  if (local > profile.max_workgroup_invocations) return false;
  const auto kernel =
      kernel::implicit_gemm(g.dtype, g.makes_weights ? ImplicitGemmMAKES::weights : ImplicitGemmMAKES::positions);
  const ImplicitGemmSpec spec{.mat_m = plan.mat_m,
                              .mat_n = plan.mat_n,
                              .local = local,
                              .bm = t.bm,
                              .bn = t.bn,
                              .wm = t.wm,
                              .wn = t.wn,
                              .bk = t.bk};
  if (shared_bytes(kernel, spec) > profile.shared_bytes) return false;
  if (local % a_row != 0 || local % b_row != 0 || a_rows * a_row % local != 0 || b_rows * b_row % local != 0)
    return false;
  // Small subgroups have few registers for the matrices of a large tile.
  return t.wm * t.wn / static_cast<uint32_t>(subgroup) <= 64;
}

// The parts of k in which positions take least time: with few tiles, parts fill the device.
SplitCost best_parts(const TileCost& cost, const ImplicitGemmProblem& g, const DeviceProfile& profile) {
  const ProductTuning& tuning = product_tuning(profile);
  constexpr uint32_t kMost = 16, kLeastSteps = 4;
  const TilePlan& t = cost.tile;
  const uint64_t products = count(t, g) * g.groups;
  const double sums = static_cast<double>(g.m) * g.n * g.groups;
  const bool adds = profile.max_push_constant_bytes >= sizeof(GemmSplitsParams);  // parts, by a second kernel
  const uint32_t most =
      adds && products < tuning.workgroups_per_round ? std::min(kMost, ceil_div(g.k, t.bk) / kLeastSteps) : 1;
  SplitCost best = split_cost(tuning, cost, products, g.k, sums, 1);
  for (uint32_t wanted = 2; wanted <= most; ++wanted) {
    const SplitCost parts = split_cost(tuning, cost, products, g.k, sums, wanted);
    if (parts.us < best.us) best = parts;
  }
  return best;
}

std::optional<ImplicitGemmPlan> float_tile(const ImplicitGemmProblem& g, const DeviceProfile& profile) {
  ImplicitGemmPlan plan;
  plan.local = 256;
  if (profile.max_workgroup_invocations < plan.local) return std::nullopt;
  const ProductTuning& tuning = product_tuning(profile);
  for (const TileCost& cost : kFloatTiles) {
    plan.tile = cost.tile;
    if (!g.makes_weights) plan.splits = best_parts(cost, g, profile).splits;
    if (count(cost.tile, g) >= tuning.workgroups_per_round) break;
  }
  return plan;
}

std::optional<ImplicitGemmPlan> coopmat_tile(const ImplicitGemmProblem& g, const DeviceProfile& profile,
                                             const MatrixLayout& layout) {
  if (!layout.usable) return std::nullopt;
  const ProductTuning& tuning = product_tuning(profile);
  std::optional<ImplicitGemmPlan> best;
  double best_time = 0;
  for (const TileCost& cost : tuning.implicit_gemm) {
    ImplicitGemmPlan plan;
    plan.tile = cost.tile;
    plan.mat_m = layout.m;
    plan.mat_n = layout.n;
    plan.local = (plan.tile.bm / plan.tile.wm) * (plan.tile.bn / plan.tile.wn) * static_cast<uint32_t>(layout.subgroup);
    if (!fits(plan, g, profile, layout.subgroup)) continue;
    double time = static_cast<double>(count(plan.tile, g)) * cost.us;
    if (!g.makes_weights) {  // those share positions until the device is full, whatever the tile
      const SplitCost parts = best_parts(cost, g, profile);
      plan.splits = parts.splits;
      time = parts.us;
    }
    if (profile.is_software()) time = plan.tile.bm;  // the smallest, which is compiled soonest
    if (best && time >= best_time) continue;
    best = plan;
    best_time = time;
  }
  return best;
}

}  // namespace

bool implicit_gemm_takes(const DeviceProfile& profile, const ImplicitGemmSizes& s) {
  const ConvGeometry& g = s.g;
  if (profile.software_simd()) return false;  // columns and gemm_simd.comp have no barrier
  const auto e = static_cast<int64_t>(16 / dtype_size(s.dtype));
  if (s.groups != 1 && (s.channels / s.groups % e != 0 || s.out_channels / s.groups % e != 0)) return false;
  // A few channels are mostly padding.
  if (s.channels / s.groups < 3 || s.out_channels / s.groups < 3) return false;
  const int64_t taps = g.taps(), largest = int64_t{1} << 30,
                positions = s.images * std::max(ConvGeometry::volume(g.size), ConvGeometry::volume(g.out_size)),
                wide = round_up(std::max(s.channels, s.out_channels), e);
  if (!may_walk(profile, static_cast<uint64_t>(std::max(positions, taps * wide) / 4)))
    return false;  // its sums are not cut
  return positions < largest && positions * wide / e < largest * 4 && taps * wide < largest &&
         wide * wide / s.groups * taps < largest;
}

std::optional<ImplicitGemmPlan> implicit_gemm_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                                   const ImplicitGemmProblem& g) {
  auto plan = g.dtype == DType::f32 ? float_tile(g, profile) : coopmat_tile(g, profile, units.layout);
  if (!plan) return plan;
  const uint64_t products = count(plan->tile, g) * g.groups;
  if (g.makes_weights) {
    // The positions are shared between as many workgroups as fill the device, each with some steps to do.
    const uint64_t enough = 2 * product_tuning(profile).workgroups_per_round;
    plan->splits = static_cast<uint32_t>(
        std::clamp<uint64_t>(enough / products, 1, std::max<uint64_t>(1, g.k / (uint64_t{plan->tile.bk} * 8))));
  } else {
    plan->out_vec8 = g.n % 8 == 0 && g.dtype != DType::f32 && plan->splits == 1;
    plan->one_tap = g.channels % plan->tile.bk == 0;
  }
  plan->grid = linear_grid(products * plan->splits);
  return plan;
}

std::string text_of(const ImplicitGemmPlan& plan) {
  const auto number = [](uint64_t x) { return std::to_string(x); };
  const TilePlan& t = plan.tile;
  std::string text = "implicit_gemm " + number(t.bm) + "x" + number(t.bn) + "x" + number(t.bk);
  if (t.wm != 0) {
    text += " of " + number(t.wm) + "x" + number(t.wn) + " matrices " + std::to_string(plan.mat_m) + "x" +
            std::to_string(plan.mat_n);
  }
  text += " local " + number(plan.local) + " splits " + number(plan.splits);
  if (plan.out_vec8) text += " out vec8";
  if (plan.one_tap) text += " one tap a step";
  return text + ' ' + grid_text(plan.grid);
}

}  // namespace aule::ops
