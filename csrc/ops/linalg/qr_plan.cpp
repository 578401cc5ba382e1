#include "ops/linalg/qr_plan.h"

#include <algorithm>
#include <array>

#include "kernels_linalg.gen.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
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

bool fits(const DeviceProfile& profile, DType dtype, uint64_t rows, QrPanelPlan& plan) {
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
  if (fits(profile, dtype, rows, plan)) return plan;
  for (const uint32_t panel : {kPanel, kPanel / 2}) {
    plan.columns = std::min<uint32_t>(panel, static_cast<uint32_t>(columns));
    if (fits(profile, dtype, rows, plan)) return plan;
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
