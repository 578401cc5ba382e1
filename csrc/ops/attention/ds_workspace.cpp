#include "ops/attention/ds_workspace.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core/environment.h"
#include "core/per_device.h"

namespace aule::ops {
namespace {

constexpr int kDsBlocks = 8;  // DS_ROWS of coopmat.glsl, in rows of a matrix

// Bytes of the last workspace whose allocation failed, 0 if none has.
std::atomic<int64_t>& failed_on(int device) {
  static const PerDevice<std::atomic<int64_t>> bytes;
  return bytes[device];
}
int64_t most_bytes(double mib, int64_t failed) {
  const auto bytes = static_cast<int64_t>(std::min(mib, 1e6) * 1048576);
  return failed == 0 ? bytes : std::min(bytes, failed / 2);
}

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

bool in_pairs(const MatrixLayout& layout) {
  constexpr uint32_t kEven = 0x0f0f0f0f;
  return layout.lane_col % 2 == 0 && (layout.cols & 0x01010101) == 0 &&
         (layout.rows & kEven) == (layout.rows >> 4 & kEven) &&
         (layout.cols >> 4 & kEven) == (layout.cols & kEven) + 0x01010101;
}

// Subgroups side by side until each has at most five blocks of 16 columns, whose accumulators leave room for 4 blocks
// of rows; where one has all columns, two.
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

StoredScoresProblem stored_scores_problem(const AttentionCall& call, const FlashCoopMatPlan& dq,
                                          const FlashCoopMatPlan& dkdv) {
  const AttentionProblem& problem = call.problem;
  const bool is_lower_triangle =
      call.right == 0 && call.left >= kUnbounded && call.shift == 0 && problem.q_len == problem.k_len;
  return {problem, dq, dkdv, is_lower_triangle, failed_on(call.query.device().index()).load()};
}

std::optional<StoredScores> plan_stored_scores(const DeviceProfile& profile, const StoredScoresProblem& given,
                                               const Overrides& overrides) {
  const AttentionProblem& problem = given.attention;
  const FlashCoopMatPlan& dkdv = given.dkdv;
  const double asked = overrides.attention_workspace;
  if (asked <= 0 || given.dq.opaque || dkdv.opaque || problem.ragged) return {};
  const MatrixLayout& layout = problem.layout;
  if (!dkdv.acc_is_a_operand || layout.m != layout.n || layout.elements != 8) return {};
  StoredScores stored;
  stored.dq = dkdv;
  if (!shape_dq(stored.dq, layout, dkdv.block) || stored.dq.block % dkdv.tile != 0) return {};
  if (static_cast<uint32_t>(stored.dq.local) > profile.max_workgroup_invocations) return {};
  stored.pairs = in_pairs(layout);
  MatrixSpec spec;
  set_plan(spec, stored.dq, layout);
  spec.pairs = stored.pairs;
  if (shared_bytes(kernel::flash_attn_bwd_dq_from_ds(problem.dtype), spec) > profile.shared_bytes) return {};

  const int64_t pitch = round_up(problem.q_len, stored.dq.block), keys = round_up(problem.k_len, dkdv.block);
  if (pitch * keys * 2 >= int64_t{1} << 32) return {};  // offsets in a head have 32 bits
  stored.triangle = given.is_lower_triangle && dkdv.block == stored.dq.block;
  stored.key_blocks = static_cast<int>(keys / layout.m);
  stored.head_bytes =
      problem.heads / problem.kv_heads * (stored.triangle ? pitch * (pitch + stored.dq.block) : 2 * pitch * keys);
  const int64_t budget = most_bytes(asked, given.failed_bytes);
  const int64_t heads = problem.batch * problem.kv_heads;
  stored.halves = 2 * stored.head_bytes <= budget && stored.head_bytes * heads > budget ? 2 : 1;
  const int64_t room = budget / stored.halves / stored.head_bytes;
  if (room == 0) return {};
  const int64_t chunks = (heads + room - 1) / room;
  stored.heads = (heads + chunks - 1) / chunks;  // alike, so that the last is no small one
  return stored;
}

std::string text_of(const StoredScores& plan) {
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
  return text + "dq of " + text_of(AttentionPlan(plan.dq));
}

std::vector<at::Tensor> stored_scores_workspace(const AttentionCall& call, const StoredScores& plan) {
  std::vector<at::Tensor> halves;
  try {
    for (int i = 0; i < plan.halves; ++i)
      halves.push_back(at::empty({plan.heads * plan.head_bytes}, call.query.options().dtype(at::kByte)));
  } catch (const c10::OutOfMemoryError&) {
    halves.clear();
    failed_on(call.query.device().index()) = plan.heads * plan.head_bytes * plan.halves;
  }
  return halves;
}

}  // namespace aule::ops
