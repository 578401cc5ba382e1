#include "ops/attention/plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <sstream>

#include "ops/attention/tuning_table.h"

namespace aule::ops {
namespace {

// A lane's rows are in registers, which are the stack of the driver's code: 16 KiB of it is half a first-level cache.
// Small problems take one row per lane, because that pipeline compiles four times faster.
std::optional<AttentionPlan> plan_simd(const DeviceProfile& profile, const AttentionProblem& problem,
                                       AttentionPass pass) {
  const bool lanes = profile.subgroup_size == 4 || profile.subgroup_size == 8 || profile.subgroup_size == 16;
  if (!lanes || !profile.subgroup_shuffle || problem.head_dim > 128 || problem.v_dim > 128) return {};
  FlashSimdPlan plan;
  plan.local = static_cast<int>(profile.subgroup_size);
  plan.dim = narrow<int>(round_up(problem.head_dim, 2 * plan.local));
  plan.v_dim = narrow<int>(round_up(problem.v_dim, 2 * plan.local));
  const int vectors = pass == AttentionPass::forward ? plan.dim + plan.v_dim
                      : pass == AttentionPass::dq    ? 2 * plan.dim + plan.v_dim
                                                     : 2 * (plan.dim + plan.v_dim);
  plan.lane_rows = 4;
  while (plan.lane_rows > 1 && plan.lane_rows * vectors > 512) plan.lane_rows /= 2;
  const double work = static_cast<double>(problem.batch * problem.heads) * static_cast<double>(problem.q_len) *
                      static_cast<double>(problem.k_len) * static_cast<double>(problem.head_dim + problem.v_dim);
  if (work < 4e6) plan.lane_rows = 1;
  plan.block = plan.local * plan.lane_rows;
  return plan;
}

std::optional<AttentionPlan> plan_simt(const DeviceProfile& profile, const AttentionProblem& problem,
                                       AttentionPass pass, const Overrides& overrides) {
  const int64_t dim = pass == AttentionPass::forward ? problem.v_dim
                      : pass == AttentionPass::dq    ? problem.head_dim
                                                     : std::max(problem.head_dim, problem.v_dim);
  const int64_t length = pass == AttentionPass::dkdv ? problem.k_len : problem.q_len;
  const std::optional<SimtShape> shape = simt_shape(profile, pass, dim, length, overrides);
  if (!shape) return {};
  const SimtShape& s = *shape;
  FlashSimtPlan plan{s};
  plan.result_columns = simt_columns(s, dim);
  plan.result_parts = narrow<int>(ceil_div(dim, plan.result_columns));
  plan.block = s.local / s.lanes * s.rows;
  // For every subgroup size that the driver may choose: Adreno reports 128 and compiles for 64.
  plan.shuffles = profile.subgroup_shuffle && static_cast<int>(profile.min_subgroup_size) >= s.lanes &&
                  s.local % static_cast<int>(profile.max_subgroup_size) == 0;
  return plan;
}

// Elements of an accumulator in a lane, also if the layout is unknown.
int lane_elements(const MatrixLayout& layout) { return layout.m * layout.n / layout.subgroup; }

// For `plan.role_split` subgroups side by side. Two run the same code, one for query and key, one for value.
void pad_heads(FlashCoopMatPlan& plan, const AttentionProblem& problem) {
  plan.dim = narrow<int>(round_up(problem.head_dim, 16 * plan.role_split));
  plan.v_dim = narrow<int>(round_up(problem.v_dim, 16 * plan.role_split));
  if (plan.role_split == 2) plan.dim = plan.v_dim = std::max(plan.dim, plan.v_dim);
}

// One driver hangs if a kernel has more shared memory than the device.
bool fits(const DeviceProfile& profile, const FlashCoopMatPlan& plan, const AttentionProblem& problem,
          AttentionPass pass) {
  CoopMatSpec spec;
  set_plan(spec, plan, problem.layout);
  if (problem.block_mask && pass == AttentionPass::forward && !plan.opaque) spec.listed = kMostListed;
  if (problem.float_bias) spec.bias_dtype = DType::f32;
  const DType dtype = problem.dtype;
  uint64_t bytes;
  switch (pass) {
    case AttentionPass::forward:
      bytes = plan.opaque ? shared_bytes(kernel::flash_attn_fwd_coopmat_opaque(dtype), spec)
                          : shared_bytes(kernel::flash_attn_fwd_coopmat(dtype), spec);
      break;
    case AttentionPass::dq: bytes = shared_bytes(kernel::flash_attn_bwd_dq_coopmat(dtype, plan.opaque), spec); break;
    default: bytes = shared_bytes(kernel::flash_attn_bwd_dkdv_coopmat(dtype, plan.opaque), spec);
  }
  return bytes <= profile.shared_bytes && static_cast<uint32_t>(plan.local) <= profile.max_workgroup_invocations;
}

std::optional<AttentionPlan> plan_coopmat(const DeviceProfile& profile, const AttentionProblem& problem,
                                          AttentionPass pass, const Overrides& overrides) {
  const MatrixLayout& layout = problem.layout;
  if (!layout.known || profile.max_push_constant_bytes < 256) return {};
  const auto widest = static_cast<int>(std::max(problem.head_dim, problem.v_dim));
  const CoopMatEntry entry = coopmat_entry(profile, problem, pass, narrow<int>(round_up(widest, 16)), overrides);
  if (entry.dim == 0) return {};
  FlashCoopMatPlan plan;
  // Two operands and the accumulators of 16 rows fill the registers at 128 columns of a subgroup.
  const bool wide = widest > 128 || entry.role_split == 2 || overrides.attention_role_split == 2;
  plan.role_split = pass != AttentionPass::forward && wide ? 2 : 1;
  pad_heads(plan, problem);
  plan.acc_is_a_operand = layout.acc_is_a_operand && overrides.attention_acc_is_a_operand;
  plan.local = entry.subgroups * layout.subgroup;
  plan.row_blocks = entry.row_blocks;
  plan.tile = entry.tile;
  plan.blocks_in_flight = std::min(entry.blocks_in_flight * 16, entry.tile) / layout.n;  // entries count 16 columns
  // The backward passes load a tile before they know which one follows.
  plan.stages = problem.block_mask && pass != AttentionPass::forward ? 1 : entry.stages;
  if (plan.role_split == 2 && lane_elements(layout) % 4 != 0) return {};
  if (entry.subgroups % plan.role_split != 0 || entry.tile % layout.n != 0 ||
      entry.tile / layout.n % plan.blocks_in_flight != 0)
    return {};
  plan.from_global = entry.from_global;
  plan.motion_barriers = entry.motion_barriers;
  plan.block = entry.subgroups / plan.role_split * entry.row_blocks * layout.m;
  if (!fits(profile, plan, problem, pass)) return {};
  return plan;
}

// One block of rows of a subgroup, one stage. Forward tiles as measured on an H200: D 64 4 subgroups, D 128 8.
std::optional<AttentionPlan> plan_opaque(const DeviceProfile& profile, const AttentionProblem& problem,
                                         AttentionPass pass) {
  const MatrixLayout& layout = problem.layout;
  if (!layout.usable || profile.max_push_constant_bytes < 256) return {};
  FlashCoopMatPlan plan;
  plan.opaque = true;
  const bool forward = pass == AttentionPass::forward;
  plan.role_split = !forward && std::max(problem.head_dim, problem.v_dim) > 96 ? 2 : 1;
  pad_heads(plan, problem);
  const int widest = std::max(plan.dim, plan.v_dim), m = layout.m, n = layout.n;
  if (widest > family_limits(profile).opaque_dim || layout.subgroup % m != 0) return {};
  if (plan.role_split == 2 && lane_elements(layout) % 4 != 0) return {};
  // 512 invocations have 128 registers each on RDNA3.5, and spill there.
  const int lanes = layout.subgroup / m, subgroups = forward && widest > 64 && layout.subgroup <= 32 ? 8 : 4;
  plan.local = subgroups * layout.subgroup;
  plan.row_blocks = plan.blocks_in_flight = plan.stages = 1;
  plan.tile = widest <= 128 && !profile.is_software() ? 32 : 16;
  plan.block = subgroups / plan.role_split * m;
  if (n % lanes != 0 || n / lanes > 8) return {};
  // Operands that pass between lanes need shared memory of their own, which only the forward has.
  plan.acc_is_a_operand = forward;
  if (!fits(profile, plan, problem, pass)) return {};
  return plan;
}

// Enough workgroups that each of some 128 multiprocessors has four, a split no shorter than two tiles.
std::optional<AttentionPlan> plan_splitkv_shared(const DeviceProfile& profile, const AttentionProblem& problem,
                                                 AttentionPass pass) {
  constexpr int64_t kWorkgroups = 512;
  if (pass != AttentionPass::forward || problem.kv_heads == 0 || problem.head_dim > 256 || problem.v_dim > 256)
    return {};
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len;
  if (rows < 1 || rows > 16) return {};
  FlashSplitKvSharedPlan plan;
  plan.local = 128;
  plan.rows = 1;
  while (plan.rows < rows) plan.rows *= 2;
  FlashAttnSplitkvSharedSpec spec;
  set_plan(spec, plan, problem);
  if (shared_bytes(kernel::flash_attn_splitkv_shared(), spec) > profile.shared_bytes) return {};
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t wanted = std::max<int64_t>(1, (kWorkgroups + groups - 1) / std::max<int64_t>(groups, 1));
  constexpr int64_t kMost = 512;  // shared memory of flash_attn_splitkv_combine
  const int64_t most = std::clamp<int64_t>((problem.k_len + 2 * plan.local - 1) / (2 * plan.local), 1, kMost);
  // Many sequences of unlike lengths: smaller splits balance them.
  const int64_t fine = problem.ragged && groups > 64 ? std::min(4 * kWorkgroups / groups, problem.k_len / 1024) : 0;
  plan.splits = static_cast<int>(std::min(problem.num_splits > 0 ? problem.num_splits : std::max(wanted, fine), most));
  // A power of two; every Vulkan device allows 128.
  plan.combine_local =
      profile.is_software() ? 64 : static_cast<int>(std::min(256u, std::bit_floor(profile.max_workgroup_invocations)));
  return plan;
}

// Number of splits of the keys of each of `groups` heads. A workgroup fills one of the `processors`, so they run in
// rounds. A round takes its steps of the keys, two more to begin and to end, and some to combine many splits.
int splitkv_splits(int64_t groups, int64_t steps, int64_t processors) {
  int64_t best = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t splits = 1; splits <= std::min(steps, processors); ++splits) {
    const int64_t rounds = ceil_div(groups * splits, processors);
    const int64_t cost = rounds * (ceil_div(steps, splits) + 2 + (splits > 1 ? 1 + splits / 24 : 0));
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return static_cast<int>(best);
}

std::optional<AttentionPlan> plan_splitkv(const DeviceProfile& profile, const AttentionProblem& problem,
                                          AttentionPass pass, const Overrides& overrides) {
  if (pass != AttentionPass::forward || !problem.fits_i32 || problem.kv_heads == 0 || problem.batch == 0 ||
      problem.head_dim > 256 || problem.v_dim > 256 || problem.batch > profile.max_group_count[2] ||
      problem.kv_heads > profile.max_group_count[1])
    return {};
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len, groups = problem.batch * problem.kv_heads;
  const auto cluster = static_cast<int>(profile.min_subgroup_size);
  if (rows < 1 || rows > 16 || !profile.subgroup_shuffle || cluster < 4 || profile.max_push_constant_bytes < 256)
    return {};
  FlashSplitKvPlan plan;
  plan.rows = 1;
  while (plan.rows < rows && plan.rows < 4) plan.rows *= 2;
  while (plan.rows * plan.subgroups < rows) plan.subgroups *= 2;
  // Of 16 bytes, or of 32 if they are float32.
  const auto loads = static_cast<int>(ceil_div(std::max(problem.head_dim, problem.v_dim), problem.int8 ? 16 : 8));
  plan.lanes = plan.rows;
  while (plan.lanes < loads && plan.lanes < cluster) plan.lanes *= 2;
  // A CPU's compiler likes small workgroups. Sixteen columns of several rows fill the registers of many invocations.
  const bool cpu = profile.is_software(), narrow = problem.vec16b || problem.int8;
  plan.local = cpu ? cluster * plan.subgroups : narrow ? family_limits(profile).splitkv_local : 256;
  if (problem.int8 && plan.rows > 1 && !cpu) plan.local = std::min(plan.local, 256);
  // Of a few keys a step of more invocations is mostly empty, and putting their sums together takes longer.
  if (narrow && !cpu && plan.subgroups == 1 && problem.k_len < 2048)
    plan.local = std::min(plan.local, problem.k_len < 1024 ? 128 : 256);
  plan.keys_per_lane = cpu ? 2 : narrow ? 4 : 8;
  const Numbers& asked = overrides.attention_shape;
  if (overrides.attention_variant == AttentionVariant::splitkv && asked.count > 0) {
    plan.local = asked.values[0];
    if (asked.count > 1) plan.keys_per_lane = asked.values[1];
  }
  const auto has_room = [&] {
    FlashAttnSplitkvSpec spec;
    set_plan(spec, plan, problem, profile.min_subgroup_size);
    return shared_bytes(kernel::flash_attn_splitkv(), spec) <= profile.shared_bytes;
  };
  plan.rows_per_pass = plan.rows;
  while (plan.rows_per_pass > 1 && !has_room()) plan.rows_per_pass /= 2;
  const auto most = static_cast<int>(profile.max_workgroup_invocations);
  while (plan.local > cluster * plan.subgroups && (plan.local > most || !has_room())) plan.local /= 2;
  if (plan.local > most || !has_room() || plan.local % static_cast<int>(profile.max_subgroup_size) != 0 ||
      plan.local % (cluster * plan.subgroups) != 0)
    return {};
  const int64_t step = plan.local / plan.lanes / plan.subgroups * plan.keys_per_lane;
  const int64_t steps = std::max<int64_t>(ceil_div(problem.k_len, step), 1);
  plan.splits = problem.num_splits > 0 ? static_cast<int>(std::min({problem.num_splits, steps, int64_t{512}}))
                                       : splitkv_splits(groups, steps, profile.multiprocessors);
  return plan;
}

}  // namespace

std::optional<AttentionPlan> plan_attention(const DeviceProfile& profile, const AttentionProblem& asked,
                                            AttentionPass pass, const Overrides& overrides) {
  using V = AttentionVariant;
  if (!servable(asked.head_dim, asked.v_dim)) return {};
  AttentionProblem problem = asked;
  if (problem.num_splits == 1) problem.q_len = problem.k_len = 1 << 16;  // one plan, whatever the other sequences are
  const V variant = overrides.attention_variant;
  const bool software = profile.is_software(), splits = asked.num_splits != 1 && !asked.block_mask;
  const bool usual = variant == V::any && !software;
  const bool many_keys = usual && problem.k_len >= 256;
  std::optional<AttentionPlan> plan;
  if (problem.int8) {  // few keys, too: another family needs a copy of them in the query's dtype
    if (variant == V::any || variant == V::splitkv) plan = plan_splitkv(profile, asked, pass, overrides);
    return plan;
  }
  if (splits && (variant == V::splitkv || many_keys)) plan = plan_splitkv(profile, problem, pass, overrides);
  if (!plan && splits && (variant == V::splitkv_shared || many_keys))
    plan = plan_splitkv_shared(profile, problem, pass);
  if (!plan && (variant == V::coopmat || usual)) plan = plan_coopmat(profile, problem, pass, overrides);
  if (!plan && (variant == V::coopmat_opaque || usual)) plan = plan_opaque(profile, problem, pass);
  if (!plan && (variant == V::simd || (variant != V::simt && software))) plan = plan_simd(profile, problem, pass);
  if (!plan) plan = plan_simt(profile, problem, pass, overrides);
  return plan;
}

const char* family_name(const AttentionPlan& plan) {
  if (const auto* p = std::get_if<FlashCoopMatPlan>(&plan)) return p->opaque ? "coopmat_opaque" : "coopmat";
  constexpr const char* kNames[] = {"simd", "simt", "coopmat", "splitkv", "splitkv_shared"};
  return kNames[plan.index()];
}

std::string text_of(const AttentionPlan& plan) {
  std::ostringstream text;
  text << family_name(plan);
#define AULE_SAY(member) text << " " #member "=" << p.member
  struct Say {
    std::ostringstream& text;
    void operator()(const FlashSimdPlan& p) const {
      AULE_SAY(local), AULE_SAY(dim), AULE_SAY(v_dim), AULE_SAY(lane_rows), AULE_SAY(block);
    }
    void operator()(const FlashSimtPlan& plan) const {
      const SimtShape& p = plan.shape;
      AULE_SAY(local), AULE_SAY(lanes), AULE_SAY(rows), AULE_SAY(columns), AULE_SAY(depth), AULE_SAY(strip);
      AULE_SAY(stages), AULE_SAY(unroll_scores), AULE_SAY(unroll_result), AULE_SAY(most);
      (*this)(plan, 0);
    }
    void operator()(const FlashSimtPlan& p, int) const {
      AULE_SAY(result_columns), AULE_SAY(result_parts), AULE_SAY(shuffles), AULE_SAY(block);
    }
    void operator()(const FlashCoopMatPlan& p) const {
      AULE_SAY(local), AULE_SAY(dim), AULE_SAY(v_dim), AULE_SAY(row_blocks), AULE_SAY(tile);
      AULE_SAY(blocks_in_flight), AULE_SAY(stages), AULE_SAY(role_split), AULE_SAY(from_global);
      AULE_SAY(motion_barriers), AULE_SAY(acc_is_a_operand), AULE_SAY(block);
    }
    void operator()(const FlashSplitKvPlan& p) const {
      AULE_SAY(local), AULE_SAY(lanes), AULE_SAY(rows), AULE_SAY(subgroups), AULE_SAY(keys_per_lane);
      AULE_SAY(rows_per_pass), AULE_SAY(splits);
    }
    void operator()(const FlashSplitKvSharedPlan& p) const {
      AULE_SAY(local), AULE_SAY(rows), AULE_SAY(splits), AULE_SAY(combine_local);
    }
  };
#undef AULE_SAY
  std::visit(Say{text}, plan);
  return text.str();
}

void set_plan(CoopMatSpec& spec, const FlashCoopMatPlan& plan, const MatrixLayout& layout) {
  spec.local = plan.local;
  spec.mat_m = layout.m;
  spec.mat_n = layout.n;
  spec.subgroup = layout.subgroup;
  spec.lanes_per_row = layout.lane_div;
  spec.lane_row_step = layout.lane_row;
  spec.lane_col_step = layout.lane_col;
  spec.lane_rows = layout.lane_rows;
  spec.elem_rows = layout.rows;
  spec.elem_cols = layout.cols;
  spec.elem_of_a = layout.a_elem;
  spec.elem_lane_rows = layout.elem_lane_rows;
  spec.lane_row_offsets = layout.lane_row_offsets;
  spec.d = plan.dim;
  spec.dv = plan.v_dim;
  spec.tile = plan.tile;
  spec.row_blocks = plan.row_blocks;
  spec.blocks_in_flight = plan.blocks_in_flight;
  spec.stages = plan.stages;
  spec.acc_is_a_operand = plan.acc_is_a_operand;
  spec.role_split = plan.role_split;
  spec.motion_barriers = plan.motion_barriers;
  spec.truncates = layout.truncates;
}

void set_plan(SimtSpec& spec, const SimtShape& shape, int result_columns) {
  spec.local = shape.local;
  spec.columns = result_columns;
  spec.r = shape.rows;
  spec.tx = shape.lanes;
  spec.c = shape.columns;
  spec.depth = shape.depth;
  spec.strip = shape.strip;
  spec.stages = shape.stages;
  spec.unroll_s = shape.unroll_scores;
  spec.unroll_o = shape.unroll_result;
}

void set_plan(FlashAttnSplitkvSharedSpec& spec, const FlashSplitKvSharedPlan& plan, const AttentionProblem& problem) {
  spec.local = plan.local;
  spec.rows = plan.rows;
  spec.vec8s = ceil_div(problem.head_dim, 8);
  spec.vec8s_v = ceil_div(problem.v_dim, 8);
}

void set_plan(FlashAttnSplitkvSpec& spec, const FlashSplitKvPlan& plan, const AttentionProblem& problem,
              uint32_t cluster) {
  spec.local = plan.local;
  spec.members = problem.heads / problem.kv_heads;
  spec.queries = problem.q_len;
  spec.vec8s = ceil_div(problem.head_dim, 8);
  spec.vec8s_v = ceil_div(problem.v_dim, 8);
  spec.cluster = cluster;
  spec.lanes = plan.lanes;
  spec.keys = plan.keys_per_lane;
  spec.pass = plan.rows_per_pass;
  spec.int8 = problem.int8;
}

}  // namespace aule::ops
