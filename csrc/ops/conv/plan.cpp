#include "ops/conv/plan.h"

#include <algorithm>
#include <array>

#include "kernels_conv.gen.h"

namespace aule::ops {
namespace {

// The microseconds that one core of an H200 takes for 64 k of a tile.
struct CostedTile {
  TilePlan size;
  double cost;
};
constexpr std::array<CostedTile, 4> kMatrixTiles = {{{{128, 128, 64, 32, 64}, 0.95},
                                                     {{128, 64, 64, 32, 64}, 0.6},
                                                     {{64, 64, 32, 32, 64}, 0.37},
                                                     {{32, 32, 16, 16, 32}, 0.3}}};
constexpr std::array<TilePlan, 2> kFloatTiles = {{{128, 128, 0, 0, 16}, {64, 64, 0, 0, 16}}};
constexpr uint64_t kCores = 128;  // Vulkan does not tell how many cores a device has

uint64_t count(const TilePlan& t, const ImplicitGemmProblem& g) {
  return uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn);
}

bool fits(const ImplicitGemmPlan& plan, const ImplicitGemmProblem& g, const GemmDevice& device) {
  const TilePlan& t = plan.tile;
  const uint32_t threads = plan.threads;
  const uint32_t a_row = (g.makes_weights ? t.bm : t.bk) / 8, b_row = (g.makes_weights ? t.bn : t.bk) / 8,
                 a_rows = g.makes_weights ? t.bk : t.bm, b_rows = g.makes_weights ? t.bk : t.bn;
  if (threads > device.caps->max_workgroup_invocations) return false;
  const auto kernel =
      kernel::conv_tiles(g.dtype, g.makes_weights ? ConvTilesMAKES::weights : ConvTilesMAKES::positions);
  const ConvTilesSpec spec{.mat_m = plan.mat_m,
                           .mat_n = plan.mat_n,
                           .threads = threads,
                           .bm = t.bm,
                           .bn = t.bn,
                           .wm = t.wm,
                           .wn = t.wn,
                           .bk = t.bk};
  if (shared_bytes(kernel, spec) > device.caps->shared_bytes) return false;
  if (threads % a_row != 0 || threads % b_row != 0 || a_rows * a_row % threads != 0 || b_rows * b_row % threads != 0)
    return false;
  // Small subgroups have few registers for the matrices of a large tile.
  return t.wm * t.wn / static_cast<uint32_t>(device.layout.subgroup) <= 64;
}

std::optional<ImplicitGemmPlan> float_tile(const ImplicitGemmProblem& g, const GemmDevice& device) {
  ImplicitGemmPlan plan;
  plan.threads = 256;
  if (device.caps->max_workgroup_invocations < plan.threads) return std::nullopt;
  for (const TilePlan& tile : kFloatTiles) {
    plan.tile = tile;
    if (count(tile, g) >= kCores) break;
  }
  return plan;
}

std::optional<ImplicitGemmPlan> matrix_tile(const ImplicitGemmProblem& g, const GemmDevice& device) {
  if (!device.layout.usable) return std::nullopt;
  std::optional<ImplicitGemmPlan> best;
  double best_time = 0;
  for (const CostedTile& tile : kMatrixTiles) {
    ImplicitGemmPlan plan;
    plan.tile = tile.size;
    plan.mat_m = device.layout.m;
    plan.mat_n = device.layout.n;
    plan.threads =
        (plan.tile.bm / plan.tile.wm) * (plan.tile.bn / plan.tile.wn) * static_cast<uint32_t>(device.layout.subgroup);
    if (!fits(plan, g, device)) continue;
    // Positions that weights sum over are shared between workgroups until the device is full.
    const uint64_t tiles = count(plan.tile, g);
    double time = static_cast<double>(g.makes_weights ? tiles : ceil_div(tiles * g.groups, kCores)) * tile.cost;
    if (device.caps->is_software()) time = plan.tile.bm;  // the smallest, which is compiled soonest
    if (best && time >= best_time) continue;
    best = plan;
    best_time = time;
  }
  return best;
}

}  // namespace

std::optional<ImplicitGemmPlan> implicit_gemm_plan(const GemmDevice& device, const ImplicitGemmProblem& g) {
  auto plan = g.dtype == DType::f32 ? float_tile(g, device) : matrix_tile(g, device);
  if (!plan) return plan;
  const uint64_t products = count(plan->tile, g) * g.groups;
  if (g.makes_weights) {
    // The positions are shared between as many workgroups as fill the device, each with some steps to do.
    plan->splits = static_cast<uint32_t>(
        std::clamp<uint64_t>(2 * kCores / products, 1, std::max<uint64_t>(1, g.k / (uint64_t{plan->tile.bk} * 8))));
  } else {
    plan->out_vec8 = g.n % 8 == 0 && g.dtype != DType::f32;
    plan->one_tap = g.channels % plan->tile.bk == 0;
  }
  plan->grid = linear_grid(products * plan->splits);
  return plan;
}

std::string describe(const ImplicitGemmPlan& plan) {
  const auto number = [](uint64_t x) { return std::to_string(x); };
  const TilePlan& t = plan.tile;
  std::string text = "implicit_gemm " + number(t.bm) + "x" + number(t.bn) + "x" + number(t.bk);
  if (t.wm != 0) {
    text += " of " + number(t.wm) + "x" + number(t.wn) + " matrices " + std::to_string(plan.mat_m) + "x" +
            std::to_string(plan.mat_n);
  }
  text += " local " + number(plan.threads) + " splits " + number(plan.splits);
  if (plan.out_vec8) text += " out vec8";
  if (plan.one_tap) text += " one tap a step";
  return text + " grid " + number(plan.grid.x) + (plan.grid.y == 1 ? "" : "x" + number(plan.grid.y));
}

}  // namespace aule::ops
