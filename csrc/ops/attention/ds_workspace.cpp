#include "ops/attention/ds_workspace.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core/environment.h"
#include "core/failure.h"
#include "core/per_device.h"
#include "ops/attention/family/tuning_table.h"

namespace aule::ops {
namespace {

constexpr int kDsBlocks = 8;  // DS_ROWS of coopmat.glsl, in rows of a matrix

// Bytes of the last workspace whose allocation failed, 0 if none has.
std::atomic<int64_t>& failed_on(int device) {
  static const PerDevice<std::atomic<int64_t>> bytes;
  return bytes[device];
}
// Negative: the planner decides.
int64_t most_bytes(const DeviceProfile& profile, double mib, int64_t failed) {
  constexpr int64_t kMost = int64_t{2} << 30;
  const int64_t bytes = mib < 0 ? std::min(kMost, static_cast<int64_t>(profile.device_heap_bytes / 64))
                                : static_cast<int64_t>(std::min(mib, 1e6) * 1048576);
  return failed == 0 ? bytes : std::min(bytes, failed / 2);
}

// Whether the planner takes a workspace by itself. A chunk whose workgroups leave multiprocessors idle costs more than
// the products that it saves (docs/ladders/flash_attn_bwd_dq_from_ds.md). Workgroups of a triangle have half of its
// longest one's work on the average, and a chunk lasts as long as that.
bool pays(const DeviceProfile& profile, const DsWorkspaceProblem& given, int64_t chunk_groups, bool whole) {
  const AttentionProblem& problem = given.attention;
  const int64_t work = given.is_lower_triangle ? chunk_groups / 2 : chunk_groups;
  return !profile.is_software() &&
         std::max(problem.head_dim, problem.v_dim) >= family_limits(profile).ds_workspace_dim &&
         (whole || 4 * work >= 3 * int64_t{profile.multiprocessors});
}

bool in_pairs(const MatrixLayout& layout) {
  constexpr uint32_t kEven = 0x0f0f0f0f;
  return layout.lane_col % 2 == 0 && (layout.cols & 0x01010101) == 0 &&
         (layout.rows & kEven) == (layout.rows >> 4 & kEven) &&
         (layout.cols >> 4 & kEven) == (layout.cols & kEven) + 0x01010101;
}

// Subgroups side by side until each has at most five blocks of 16 columns. Their accumulators leave room for 4 blocks
// of rows. If one subgroup has all columns, it has 2 blocks of rows.
bool shape_dq(FlashCoopMatPlan& plan, const MatrixLayout& layout, int key_block) {
  const int columns = plan.dim / 16;
  int across = 1;
  while (across < 4 && (columns % across != 0 || columns / across > 5)) ++across;
  if (columns % across != 0) across = 1;
  if (columns / across > 8) return false;
  plan.row_blocks = across > 1 && columns / across <= 5 ? 4 : 2;
  plan.local = kDsBlocks / plan.row_blocks * across * layout.subgroup;
  plan.tile = key_block % 32 == 0 ? 32 : 16;
  plan.blocks_in_flight = plan.stages = plan.role_split = 1;
  plan.from_global = 0;
  plan.block = plan.v_dim = kDsBlocks * layout.m;
  return key_block % plan.tile == 0 && plan.tile % layout.m == 0;
}

}  // namespace

DsWorkspaceProblem ds_workspace_problem(const AttentionCall& call, const FlashCoopMatPlan& dq,
                                        const FlashCoopMatPlan& dkdv) {
  const AttentionProblem& problem = call.problem;
  const bool is_lower_triangle =
      call.right == 0 && call.left >= kUnbounded && call.diagonal == 0 && problem.q_len == problem.k_len;
  return {problem, dq, dkdv, is_lower_triangle, failed_on(call.query.device().index()).load()};
}

std::optional<DsWorkspacePlan> plan_ds_workspace(const DeviceProfile& profile, const DsWorkspaceProblem& given,
                                                 const Overrides& overrides) {
  const AttentionProblem& problem = given.attention;
  const FlashCoopMatPlan& dkdv = given.dkdv;
  const double asked = overrides.attention_workspace;
  if (asked == 0 || given.dq.opaque || dkdv.opaque || problem.ragged) return {};
  const MatrixLayout& layout = problem.layout;
  if (!dkdv.acc_is_a_operand || layout.m != layout.n || layout.elements != 8) return {};
  DsWorkspacePlan workspace;
  workspace.dq = dkdv;
  if (!shape_dq(workspace.dq, layout, dkdv.block) || workspace.dq.block % dkdv.tile != 0) return {};
  if (static_cast<uint32_t>(workspace.dq.local) > profile.max_workgroup_invocations) return {};
  workspace.pairs = in_pairs(layout);
  CoopMatSpec spec;
  set_plan(spec, workspace.dq, layout);
  spec.ds_in_pairs = workspace.pairs;
  if (shared_bytes(kernel::flash_attn_bwd_dq_from_ds(problem.dtype), spec) > profile.shared_bytes) return {};

  const int64_t pitch = round_up(problem.q_len, workspace.dq.block), keys = round_up(problem.k_len, dkdv.block);
  if (pitch * keys * 2 >= int64_t{1} << 32) return {};  // offsets in a head have 32 bits
  workspace.triangle = given.is_lower_triangle && dkdv.block == workspace.dq.block;
  workspace.key_blocks = static_cast<int>(keys / layout.m);
  workspace.head_bytes =
      problem.heads / problem.kv_heads * (workspace.triangle ? pitch * (pitch + workspace.dq.block) : 2 * pitch * keys);
  const int64_t budget = most_bytes(profile, asked, given.failed_bytes);
  const int64_t heads = problem.batch * problem.kv_heads;
  // Chunks are of equal size, so the last is not small. 0: a head has no room.
  const auto heads_of_chunk = [&](int halves) {
    const int64_t room = budget / halves / workspace.head_bytes;
    return room == 0 ? 0 : ceil_div(heads, ceil_div(heads, room));
  };
  const auto suits = [&](int64_t chunk) {
    return chunk > 0 && (asked > 0 || pays(profile, given, chunk * (keys / dkdv.block), chunk == heads));
  };
  workspace.halves = heads_of_chunk(1) < heads && suits(heads_of_chunk(2)) ? 2 : 1;
  workspace.heads = heads_of_chunk(workspace.halves);
  if (!suits(workspace.heads)) return {};
  return workspace;
}

std::string text_of(const DsWorkspacePlan& plan) {
  std::string text;
  const auto add = [&](const char* name, int64_t value) {
    text += std::string(name) + "=" + std::to_string(value) + " ";
  };
  add("heads", plan.heads);
  add("head_bytes", plan.head_bytes);
  add("halves", plan.halves);
  add("key_blocks", plan.key_blocks);
  add("pairs", plan.pairs);
  add("triangle", plan.triangle);
  return text + "dq of " + "coopmat" + text_of(plan.dq);
}

std::vector<at::Tensor> allocate_ds_workspace(const AttentionCall& call, const DsWorkspacePlan& plan) {
  std::vector<at::Tensor> halves;
  try {
    for (int i = 0; i < plan.halves; ++i)
      halves.push_back(at::empty({plan.heads * plan.head_bytes}, call.query.options().dtype(at::kByte)));
  } catch (const Failure& failure) {
    if (failure.kind != FailureKind::out_of_memory) throw;
    halves.clear();
    failed_on(call.query.device().index()) = plan.heads * plan.head_bytes * plan.halves;
  }
  return halves;
}

}  // namespace aule::ops
