#include "ops/linalg/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "kernels_linalg.gen.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

std::string number(int64_t x) { return std::to_string(x); }

constexpr int64_t kLuUnit = 32;        // where matrices are cut
constexpr int64_t kCholeskyUnit = 32;  // the smaller one of two sizes of shared memory, so that pipelines are few
constexpr int64_t kTriangleUnit = 32;

// Turns of an invocation's loops.
uint64_t walk_of_panel(int64_t m, int64_t columns, uint32_t local) {
  const auto rows = static_cast<uint64_t>(ceil_div(m, local));
  return static_cast<uint64_t>(columns) * (rows * static_cast<uint64_t>(columns + 4) / 2 + rows + 64);
}

}  // namespace

LuPanelPlan lu_panel_plan(const DeviceProfile& profile, DType dtype, int64_t m, int64_t n) {
  const auto bytes = static_cast<int64_t>(dtype_size(dtype));
  constexpr uint32_t kStagedLocal = 256, kMostRows = 4;
  LuPanelPlan plan;
  plan.local = workgroup_for(profile, m);
  // With 256 invocations and more a driver (NVIDIA 580) finds row 0 to be the pivot of every column of doubles. No
  // other one was tried.
  const uint32_t in_registers = dtype == DType::f64 ? std::min<uint32_t>(plan.local, 128) : plan.local;
  const bool has_registers =
      !profile.is_software() && profile.subgroup_arithmetic && m <= kMostRows * int64_t{in_registers};
  for (int64_t columns : {kLuSide, int64_t{56}, int64_t{40}, kLuUnit, kLuUnit / 2}) {
    if (m * columns * bytes > kLuSharedBytes || (m > columns && columns > kLuUnit)) continue;
    const bool is_subgroups = m <= kLuUnit && n <= m;  // pivots are found within a subgroup
    if (has_registers && (columns < kLuUnit || is_subgroups)) continue;
    plan.columns = columns;
    plan.in_shared = true;
    plan.spread = !profile.is_software();
    plan.local =
        plan.spread ? workgroup_for_elements(profile, m * std::min(m, columns)) : std::min(plan.local, kStagedLocal);
    break;
  }
  if (!plan.in_shared && has_registers) {
    plan.columns = kLuUnit;
    plan.local = in_registers;
    plan.rows = narrow<uint32_t>(std::bit_ceil(ceil_div(static_cast<uint64_t>(m), plan.local)));
    return plan;
  }
  if (!plan.in_shared) plan.columns = kLuUnit / 2;
  while (plan.columns > 1 && !may_walk(profile, walk_of_panel(m, plan.columns, plan.local))) plan.columns /= 2;
  return plan;
}

std::string text_of(const LuPanelPlan& plan) {
  const std::string where = plan.rows > 0    ? " registers, rows " + number(plan.rows)
                            : plan.in_shared ? " shared"
                                             : " memory";
  return "columns " + number(plan.columns) + where + (plan.spread ? " spread" : "") + " local " + number(plan.local);
}

namespace {

constexpr uint32_t kMostValues = 64;  // of an invocation's registers
constexpr int64_t kMostStepMatrices = 8;

}  // namespace

std::optional<LuStepsPlan> lu_steps_plan(const DeviceProfile& profile, DType dtype, int64_t m, int64_t n,
                                         int64_t batches, const Overrides& overrides) {
  LuStepsPlan plan;
  const Numbers& asked = overrides.lu_step;
  if (asked.count > 0 && asked.values[0] == 0) return std::nullopt;
  if (asked.count > 0) plan.local = std::bit_floor(static_cast<uint32_t>(std::clamp(asked.values[0], 128, 1024)));
  if (asked.count > 1) plan.block = asked.values[1] <= 64 ? 64 : asked.values[1] <= 128 ? 128 : 256;
  if (dtype != DType::f32 || profile.is_software() || !profile.subgroup_arithmetic || profile.subgroup_size < 8 ||
      profile.max_workgroup_invocations < plan.local)
    return std::nullopt;
  // The workgroups of recursive panels fill the device if there are many matrices.
  if (std::min(m, n) <= 128 || batches > kMostStepMatrices) return std::nullopt;
  while (plan.sub > 4 && lu_step_shape(plan, m).rows * plan.sub > kMostValues) plan.sub /= 2;
  if (lu_step_shape(plan, m).rows * plan.sub > kMostValues) return std::nullopt;
  return plan;
}

LuStepShape lu_step_shape(const LuStepsPlan& plan, int64_t rows) {
  constexpr uint32_t kLeast = 128;
  LuStepShape shape{.local = plan.local};
  while (shape.local > kLeast && rows <= shape.local / 2) shape.local /= 2;
  const auto each = std::max<uint64_t>(ceil_div(static_cast<uint64_t>(rows), shape.local), 1);
  shape.rows = narrow<uint32_t>(std::bit_ceil(each));
  return shape;
}

std::string text_of(const LuStepsPlan& plan) {
  return "blocks of " + number(plan.block) + ", steps of " + number(plan.sub) + " local " + number(plan.local);
}

namespace {

constexpr uint32_t kPanelLocal = 256;  // of cholesky_panel.comp
constexpr int64_t kMostPanel = 128;

// Panels in registers: float32, on devices where a barrier costs little.
std::optional<CholeskyPlan> panels_plan(const DeviceProfile& profile, DType dtype, int64_t n,
                                        const Overrides& overrides) {
  if (dtype != DType::f32 || profile.is_software() || profile.max_workgroup_invocations < kPanelLocal ||
      n <= kCholeskyUnit)
    return std::nullopt;
  CholeskyPlan plan{.at_once = n <= kMostPanel, .local = kPanelLocal};
  plan.tiles = n <= 64 ? 4 : n <= 96 ? 6 : 8;
  plan.below = plan.at_once ? 0 : 4;
  const Numbers& asked = overrides.cholesky_panel;
  if (asked.count == 0 || (asked.values[0] > 0 && plan.at_once)) return plan;
  if (asked.values[0] == 0) return std::nullopt;
  plan.tiles = asked.values[0] <= 2 ? 2 : asked.values[0] <= 4 ? 4 : 8;
  if (asked.count > 1) plan.below = asked.values[1] <= 2 ? 2 : asked.values[1] <= 4 ? 4 : 8;
  if (asked.count > 2) plan.update_side = asked.values[2] <= 4 ? 4 : 8;
  return plan;
}

}  // namespace

CholeskyPlan cholesky_plan(const DeviceProfile& profile, DType dtype, int64_t n, const Overrides& overrides) {
  if (const auto plan = panels_plan(profile, dtype, n, overrides)) return *plan;
  const size_t bytes = dtype_size(dtype);
  const int64_t largest = bytes == 4 ? 80 : bytes == 8 ? 56 : 40;
  CholeskyPlan plan{.at_once = n <= largest, .side = n <= kCholeskyUnit ? kCholeskyUnit : largest};
  plan.local = workgroup_for_elements(profile, plan.side * plan.side);
  return plan;
}

uint32_t cholesky_update_side(const CholeskyPlan& plan, int64_t m, int64_t batches) {
  constexpr int64_t kTile = 128, kLeast = 64;  // tiles, of fewer most multiprocessors would have none
  const int64_t sides = (m + kTile - 1) / kTile;
  return plan.update_side > 0 ? plan.update_side : sides * (sides + 1) / 2 * batches >= kLeast ? 8 : 4;
}

std::string text_of(const CholeskyPlan& plan) {
  if (plan.tiles > 0)
    return plan.at_once ? "at once, tiles " + number(plan.tiles)
                        : "panels of " + number(plan.columns()) + ", below " + number(plan.below);
  if (!plan.at_once) return "by halves";
  return "at once, side " + number(plan.side) + " local " + number(plan.local);
}

TrianglePlan triangle_plan(const DeviceProfile& profile, DType dtype, int64_t n, int64_t columns, int64_t batches) {
  constexpr int64_t kTiny = 8;  // a workgroup for each of these would be idle
  const auto bytes = static_cast<uint32_t>(dtype_size(dtype));
  TrianglePlan plan;
  plan.in_shared = !profile.is_software() && n > kTiny;
  // An invocation has a column in registers.
  plan.at_once = n <= (plan.in_shared && bytes == 4 ? 2 * kTriangleUnit : kTriangleUnit);
  if (!plan.at_once) return plan;
  plan.most = plan.in_shared ? kTriangleUnit / 2 : 1;
  while (plan.in_shared && plan.most < n) plan.most *= 2;
  // Columns of a workgroup: both operands together are below 32 KiB.
  plan.local = !plan.in_shared || plan.most > kTriangleUnit ? 64 : 512 / bytes;
  plan.groups = plan.in_shared ? ceil_div(static_cast<uint64_t>(columns), plan.local) * static_cast<uint64_t>(batches)
                               : ceil_div(static_cast<uint64_t>(columns * batches), plan.local);
  // Few workgroups wait for each other's steps; many fill the device, which then computes nothing twice.
  constexpr uint64_t kManyGroups = 256;
  constexpr uint32_t kShares = 4;
  if (plan.in_shared && plan.groups < kManyGroups && plan.local * kShares <= profile.max_workgroup_invocations) {
    plan.shares = kShares;
    plan.local *= kShares;
  }
  return plan;
}

std::string text_of(const TrianglePlan& plan) {
  if (!plan.at_once) return "by halves";
  return std::string("at once, ") + (plan.in_shared ? "shared, most " + number(plan.most) : "memory") + " local " +
         number(plan.local) + (plan.shares > 1 ? " shares " + number(plan.shares) : "") + " groups " +
         number(static_cast<int64_t>(plan.groups));
}

LdlPlan ldl_plan(const DeviceProfile& profile, uint64_t n) {
  constexpr uint32_t kMost = 256;
  const auto walk = [n](uint64_t local) { return n * (ceil_div(n, local) * (n / 2 + 6) + 2 * local); };
  LdlPlan plan{.local = workgroup_for(profile, static_cast<int64_t>(n))};
  // The fewest invocations whose loops a driver lets end; where there are none, the most.
  if (!profile.is_software())
    plan.local = std::min(plan.local, kMost);
  else
    while (plan.local < kMost && !may_walk(profile, walk(plan.local))) plan.local *= 2;
  plan.factor_walk = walk(plan.local);
  plan.solve_walk = n * (n + 2);
  return plan;
}

std::string text_of(const LdlPlan& plan) { return "local " + std::to_string(plan.local); }

namespace {

constexpr uint32_t kPanel = 32, kMostSteps = 96;  // STEPS of qr_panel.comp
// A few sizes of shared memory, so that pipelines are few.
constexpr std::array<uint32_t, 4> kTileBytes = {2048, 8192, 17408, 26624};

// Iterations of an invocation, where each column is reflected a second time because its squares overflow.
uint64_t iterations_of(const QrPanelPlan& plan, uint64_t rows) {
  const uint64_t steps = std::min<uint64_t>(rows, plan.columns), slots = plan.local / plan.lanes;
  const uint64_t rounds = ceil_div(plan.columns, slots) * (2 * ceil_div(rows, plan.lanes) + plan.lanes + 1);
  return steps * (rounds + rows + ceil_div(rows, plan.lanes) + 2 * plan.lanes) +
         2 * ceil_div(rows * plan.columns, plan.local);
}

bool fits_panel(const DeviceProfile& profile, DType dtype, uint64_t rows, QrPanelPlan& plan) {
  if (std::min<uint64_t>(rows, plan.columns) > kMostSteps) return false;
  const uint64_t bytes = (rows | 1) * plan.columns * dtype_size(dtype);
  for (const uint32_t tile : kTileBytes) {
    if (bytes > tile) continue;
    plan.in_shared = true;
    plan.elems = static_cast<uint32_t>(tile / dtype_size(dtype));
    const QrPanelSpec spec{.local = static_cast<int>(plan.local), .elems = static_cast<int>(plan.elems)};
    plan.in_shared = shared_bytes(kernel::qr_panel(dtype), spec) <= profile.shared_bytes;
    return plan.in_shared && may_walk(profile, iterations_of(plan, rows));
  }
  return false;
}

}  // namespace

QrPanelPlan qr_panel_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns) {
  QrPanelPlan plan{.columns = static_cast<uint32_t>(columns)};
  if (!profile.is_software()) plan.local = rows * columns <= 256 ? 32 : columns * rows <= 2048 ? 128 : 256;
  plan.local = std::min(plan.local, profile.max_workgroup_invocations);
  plan.lanes = rows <= 16 ? 4 : 8;
  if (fits_panel(profile, dtype, rows, plan)) return plan;
  for (const uint32_t panel : {kPanel, kPanel / 2}) {
    plan.columns = std::min<uint32_t>(panel, static_cast<uint32_t>(columns));
    if (fits_panel(profile, dtype, rows, plan)) return plan;
  }
  plan = {.columns = std::min<uint32_t>(kPanel, static_cast<uint32_t>(columns)), .local = 256, .lanes = 32};
  if (!profile.is_software() && rows > 2048) plan.local = 1024;
  plan.local = std::min(plan.local, profile.max_workgroup_invocations);
  while (plan.columns > 1 && !may_walk(profile, iterations_of(plan, rows))) plan.columns /= 2;
  if (plan.columns == 1) plan.lanes = plan.local;
  return plan;
}

std::string text_of(const QrPanelPlan& plan) {
  return "columns " + std::to_string(plan.columns) + " local " + std::to_string(plan.local) + " lanes " +
         std::to_string(plan.lanes) + (plan.in_shared ? " shared " + std::to_string(plan.elems) : " in memory");
}

}  // namespace aule::ops
