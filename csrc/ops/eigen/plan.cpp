#include "ops/eigen/plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels_eigen.gen.h"
#include "ops/linalg/plan.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

constexpr uint64_t kSweepsOfLaunch = 4;          // for each row, on devices without a limit of loops
constexpr uint64_t kEigTileBytes = 62 * 62 * 8;  // 30.0 KiB

// Turns of an invocation's loops: for a reflection, for a sweep, for a row of the triangular matrix's vectors.
uint64_t walk_of_reflection(uint64_t n, uint64_t local) { return ceil_div(n, local) * (6 * n + 5) + local; }
uint64_t walk_of_sweep(uint64_t n, uint64_t local) { return n * (3 * (ceil_div(n, local) + 1) + 1) + n; }
uint64_t walk_of_row(uint64_t n) { return 2 * n + 1; }

}  // namespace

EigPlan eig_plan(const DeviceProfile& profile, DType dtype, uint64_t n) {
  constexpr uint32_t kMost = 256;
  EigPlan plan;
  if (n == 0) return plan;
  // The fewest invocations, of those that suit the device, whose loops a driver lets end.
  plan.local = std::min(workgroup_for(profile, static_cast<int64_t>(n)), kMost);
  const auto longest = [n](uint64_t l) { return std::max(walk_of_reflection(n, l), walk_of_sweep(n, l)); };
  while (plan.local < kMost && !may_walk(profile, longest(plan.local))) plan.local *= 2;
  plan.walk = longest(plan.local);
  plan.in_shared = !profile.is_software() && n * n * dtype_size(dtype) <= kEigTileBytes;
  if (plan.in_shared) plan.elems = static_cast<uint32_t>(kEigTileBytes / dtype_size(dtype));
  const uint64_t most = longest_walk(profile), moves = plan.in_shared ? 2 * ceil_div(n * n, plan.local) : 0;
  const auto turns = [](uint64_t wanted, uint64_t possible) {
    return std::max<uint64_t>(1, std::min(wanted, possible));
  };
  plan.reflections = std::min(n, std::max<uint64_t>(1, most / walk_of_reflection(n, plan.local)));
  plan.sweeps = turns(kSweepsOfLaunch * n, (most - moves) / walk_of_sweep(n, plan.local));
  plan.rows = std::min(n, std::max<uint64_t>(1, most / walk_of_row(n)));
  return plan;
}

std::string text_of(const EigPlan& plan) {
  return "local " + std::to_string(plan.local) +
         (plan.in_shared ? " shared " + std::to_string(plan.elems) : " memory") + " of a launch: reflections " +
         std::to_string(plan.reflections) + " sweeps " + std::to_string(plan.sweeps) + " rows " +
         std::to_string(plan.rows);
}

JacobiSweepSpec spec_of(const JacobiPlan& plan) {
  return {.local = static_cast<int>(plan.local),
          .lanes = static_cast<int>(plan.lanes),
          .in_shared = plan.in_shared,
          .elems = static_cast<int>(plan.elems)};
}

namespace {

constexpr uint32_t kLeastBlock = 8, kBlockInMemory = 16;
// A few sizes of shared memory, so that pipelines are few; with what else the kernel declares under 32 KiB.
constexpr std::array<uint32_t, 4> kColumnBytes = {1024, 4096, 12288, 24064};

uint32_t columns_of(const JacobiPlan& plan, uint64_t columns) {
  return plan.blocks == 1 ? static_cast<uint32_t>(columns) : 2 * plan.block;
}

// Iterations of an invocation in one sweep.
uint64_t iterations_of_sweep(const JacobiPlan& plan, uint64_t rows, uint64_t columns) {
  const uint64_t own = columns_of(plan, columns), pairs = ceil_div(own, 2);
  const uint64_t rounds = own + 1, passes = ceil_div(pairs, plan.local / plan.lanes);
  return rounds * passes * (2 * ceil_div(rows, plan.lanes) + plan.lanes + 1);
}
uint64_t moves_of(const JacobiPlan& plan, uint64_t rows, uint64_t columns) {
  return 2 * ceil_div(columns_of(plan, columns) * rows, plan.local);
}

// Invocations for the pairs of a round.
void set_lanes(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns, JacobiPlan& plan) {
  const uint32_t pairs = ceil_div(columns_of(plan, columns), 2);
  plan.local = 32;
  if (profile.is_software()) {
    plan.local = rows <= 8 ? 8 : 32;
    plan.lanes = pairs >= plan.local ? 1 : pairs >= plan.local / 4 ? 4 : 8;
    if (!plan.in_shared) plan.local = 128, plan.lanes = 8;
    return;
  }
  const uint32_t most =
      std::min<uint32_t>(profile.max_workgroup_invocations, dtype == DType::f32 || dtype == DType::c64 ? 256 : 128);
  plan.lanes = rows <= 4 ? 2 : rows <= 16 ? 4 : 8;
  while (plan.lanes > 1 && pairs * plan.lanes > most) plan.lanes /= 2;
  while (plan.lanes < 32 && pairs * plan.lanes * 2 <= 64 && rows >= uint64_t{plan.lanes} * 8) plan.lanes *= 2;
  while (plan.local < most && plan.local < pairs * plan.lanes) plan.local *= 2;
}

// Shared memory for a workgroup's columns; false where they do not fit.
bool set_shared(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns, JacobiPlan& plan) {
  const uint64_t bytes = (rows | 1) * columns_of(plan, columns) * dtype_size(dtype);
  const auto tile = std::find_if(kColumnBytes.begin(), kColumnBytes.end(), [&](uint32_t b) { return bytes <= b; });
  if (tile == kColumnBytes.end()) return false;
  plan.in_shared = true;
  plan.elems = static_cast<uint32_t>(*tile / dtype_size(dtype));
  set_lanes(profile, dtype, rows, columns, plan);
  plan.in_shared = shared_bytes(kernel::jacobi_sweep(dtype), spec_of(plan)) <= profile.shared_bytes;
  return plan.in_shared;
}

void divide(uint64_t columns, uint32_t block, JacobiPlan& plan) {
  plan.blocks = narrow<uint32_t>(2 * ceil_div(columns, 2 * block));
  plan.block = narrow<uint32_t>(ceil_div(columns, plan.blocks));
}

}  // namespace

JacobiPlan jacobi_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns) {
  const auto walk = [&](const JacobiPlan& plan) {
    return moves_of(plan, rows, columns) + iterations_of_sweep(plan, rows, columns) + 1;
  };
  JacobiPlan plan;
  if (set_shared(profile, dtype, rows, columns, plan) && may_walk(profile, walk(plan))) {
    const uint64_t moves = moves_of(plan, rows, columns), sweep = walk(plan) - moves;
    plan.sweeps_of_launch =
        static_cast<uint32_t>(std::min<uint64_t>(kJacobiSweeps, (longest_walk(profile) - moves) / sweep));
    return plan;
  }
  // Blocks of as many columns as two of them fit. Where those are few, blocks stay in memory, with fewer launches.
  uint64_t block = kColumnBytes.back() / ((rows | 1) * dtype_size(dtype) * 2);
  for (bool in_shared = true;; block /= 2) {
    if (block < kLeastBlock && in_shared) {
      in_shared = false;
      block = kBlockInMemory;
    }
    plan = {};
    divide(columns, static_cast<uint32_t>(std::max<uint64_t>(block, 1)), plan);
    if (in_shared && !set_shared(profile, dtype, rows, columns, plan)) continue;
    if (!in_shared) set_lanes(profile, dtype, rows, columns, plan);
    if (plan.block == 1 || may_walk(profile, walk(plan))) break;
  }
  check_walk("linalg", profile, walk(plan));
  return plan;
}

std::string text_of(const JacobiPlan& plan) {
  return "block " + std::to_string(plan.block) + " blocks " + std::to_string(plan.blocks) + " sweeps " +
         std::to_string(plan.sweeps_of_launch) + " local " + std::to_string(plan.local) + " lanes " +
         std::to_string(plan.lanes) + (plan.in_shared ? " shared " + std::to_string(plan.elems) : " in memory");
}

namespace {

constexpr int64_t kLeastTridiagonal = 129;  // fewer rows are rotated
constexpr int64_t kLeaf = 32;               // of tridiagonal_leaf.comp
constexpr uint32_t kTridiagonalBytes = 24 << 10;

// Elements of shared memory for `count` ones of `bytes` each; 0: they do not fit into `most`.
uint32_t elems_of(int64_t count, uint32_t bytes, uint32_t most) {
  const uint64_t elems = std::bit_ceil(std::max<uint64_t>(static_cast<uint64_t>(count), 256));
  return elems * bytes <= most ? static_cast<uint32_t>(elems) : 0;
}

}  // namespace

uint32_t tridiagonal_halvings(DType dtype) { return dtype == DType::f64 || dtype == DType::c128 ? 64 : 32; }

std::optional<TridiagonalPlan> tridiagonal_plan(const DeviceProfile& profile, DType dtype, int64_t n, int64_t batches,
                                                const Overrides& overrides) {
  const Numbers& asked = overrides.tridiagonal;
  if (asked.count > 0 ? asked.values[0] == 0 : n < kLeastTridiagonal) return std::nullopt;
  const auto rows = static_cast<uint64_t>(n);
  TridiagonalPlan plan;
  while ((plan.leaf = (n + (int64_t{1} << plan.levels) - 1) >> plan.levels) > kLeaf) ++plan.levels;
  uint32_t most = 4;
  if (!profile.is_software()) {
    plan.local = std::min<uint32_t>(profile.max_workgroup_invocations, n <= 256 ? 256 : 512);
    plan.lanes = 32;
    plan.deflate_local = std::min<uint32_t>(profile.max_workgroup_invocations, 256);
    most = 128;
  }
  if (asked.count > 0) plan.local = asked.values[0] <= 64 ? 64 : asked.values[0] <= 256 ? 256 : 512;
  if (asked.count > 1) plan.rows = static_cast<uint32_t>(std::max(asked.values[1], 1));
  if (asked.count > 2) most = static_cast<uint32_t>(std::max(asked.values[2], 1));
  plan.groups = narrow<uint32_t>(std::clamp<int64_t>(most / batches, 1, most));
  // A column, and the poles of a merge, where they fit into shared memory; few sizes, so that pipelines are few.
  const bool may_share = asked.count < 4 || asked.values[3] != 0;
  plan.shared_bytes = may_share ? std::min<uint32_t>(profile.shared_bytes / 4 * 3, kTridiagonalBytes) : 0;
  plan.elems = elems_of(n, static_cast<uint32_t>(dtype_size(dtype)), plan.shared_bytes);
  // Each step reads up to 64 numbers of its rows; places of poles are counted; roots and vectors go through all.
  const auto padded = static_cast<uint64_t>(plan.padded());
  const uint64_t counted = ceil_div(padded, plan.deflate_local) * (padded + 1) + 3 * padded + plan.deflate_local;
  const uint64_t stepped = ceil_div(rows, plan.local) * 70 + rows * ceil_div(rows, plan.lanes * plan.groups) + 512;
  if (!may_walk(profile, std::max(counted, stepped))) return std::nullopt;
  const uint64_t halvings = longest_walk(profile) / (padded + 1);
  plan.halvings = static_cast<uint32_t>(std::clamp<uint64_t>(halvings, 2, tridiagonal_halvings(dtype) + 1) - 1);
  return plan;
}

uint32_t tridiagonal_groups(const TridiagonalPlan& plan, int64_t rows) {
  return static_cast<uint32_t>(std::clamp<int64_t>((rows + plan.rows - 1) / plan.rows, 1, plan.groups));
}

uint32_t deflate_elems(const TridiagonalPlan& plan, DType real, int64_t size) {
  return elems_of(size, static_cast<uint32_t>(2 * dtype_size(real) + sizeof(uint32_t)), plan.shared_bytes);
}

std::string text_of(const TridiagonalPlan& plan) {
  return "local " + std::to_string(plan.local) + " rows " + std::to_string(plan.rows) + " groups " +
         std::to_string(plan.groups) + (plan.elems > 0 ? " shared " + std::to_string(plan.elems) : " in memory") +
         ", " + std::to_string(plan.levels) + " merges of " + std::to_string(plan.leaf);
}

}  // namespace aule::ops
