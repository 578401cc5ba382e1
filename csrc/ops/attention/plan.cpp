#include "ops/attention/plan.h"

#include <algorithm>
#include <limits>

#include "core/environment.h"
#include "ops/attention/tuning_table.h"

namespace aule::ops {
namespace {

int round_up(int64_t value, int step) { return static_cast<int>((value + step - 1) / step * step); }

// Everything of a lane's rows is in registers, in truth on the stack of the driver's code: 16 KiB of it is half a
// first-level cache. Small problems take one row per lane, whose pipeline compiles four times faster.
AttentionPlan plan_rows(const DeviceProfile& caps, const AttentionProblem& problem, AttentionPass pass) {
  AttentionPlan plan;
  const bool lanes = caps.subgroup_size == 4 || caps.subgroup_size == 8 || caps.subgroup_size == 16;
  if (!lanes || !caps.subgroup_shuffle || problem.head_dim > 128 || problem.v_dim > 128) return plan;
  plan.family = AttentionFamily::rows;
  plan.local = static_cast<int>(caps.subgroup_size);
  plan.dim = round_up(problem.head_dim, 2 * plan.local);
  plan.v_dim = round_up(problem.v_dim, 2 * plan.local);
  const int vectors = pass == AttentionPass::forward ? plan.dim + plan.v_dim
                      : pass == AttentionPass::dq    ? 2 * plan.dim + plan.v_dim
                                                     : 2 * (plan.dim + plan.v_dim);
  plan.rows = 4;
  while (plan.rows > 1 && plan.rows * vectors > 512) plan.rows /= 2;
  const double work = static_cast<double>(problem.batch * problem.heads) * static_cast<double>(problem.q_len) *
                      static_cast<double>(problem.k_len) * static_cast<double>(problem.head_dim + problem.v_dim);
  if (work < 4e6) plan.rows = 1;
  plan.block = plan.local * plan.rows;
  return plan;
}

AttentionPlan plan_tiles(const DeviceProfile& caps, const AttentionProblem& problem, AttentionPass pass) {
  AttentionPlan plan;
  plan.family = AttentionFamily::tiles;
  const int64_t dim = pass == AttentionPass::forward ? problem.v_dim
                      : pass == AttentionPass::dq    ? problem.head_dim
                                                     : std::max(problem.head_dim, problem.v_dim);
  const TilesShape s = tiles_shape(caps, pass, dim, pass == AttentionPass::dkdv ? problem.k_len : problem.q_len);
  plan.local = s.local;
  plan.rows = s.rows;
  plan.columns = tiles_columns(s, dim);
  plan.splits = static_cast<int>((dim + plan.columns - 1) / plan.columns);
  plan.block = s.local / s.lanes * s.rows;
  plan.tiles = s;
  // Of any size that the driver may choose: Adreno says 128 and compiles for 64.
  plan.shuffles = caps.subgroup_shuffle && static_cast<int>(caps.min_subgroup_size) >= s.lanes &&
                  s.local % static_cast<int>(caps.max_subgroup_size) == 0;
  return plan;
}

// Of an accumulator in a lane, also where the layout is unknown.
int lane_elements(const MatrixLayout& layout) { return layout.m * layout.n / layout.subgroup; }

// For `plan.parts` subgroups side by side. Two run the same code, one for query and key, one for value.
void pad_heads(AttentionPlan& plan, const AttentionProblem& problem) {
  plan.dim = round_up(problem.head_dim, 16 * plan.parts);
  plan.v_dim = round_up(problem.v_dim, 16 * plan.parts);
  if (plan.parts == 2) plan.dim = plan.v_dim = std::max(plan.dim, plan.v_dim);
}

// More shared memory than the device has is not refused by every driver: one hangs.
bool fits(const DeviceProfile& caps, const AttentionPlan& plan, const MatrixLayout& layout,
          const AttentionProblem& problem, AttentionPass pass) {
  MatrixSpec spec;
  set_plan(spec, plan, layout);
  const bool staged = plan.family == AttentionFamily::staged;
  const DType dtype = problem.dtype;
  uint64_t bytes;
  switch (pass) {
    case AttentionPass::forward:
      bytes = staged ? shared_bytes(kernel::flash_attn_fwd_staged(dtype), spec)
                     : shared_bytes(kernel::flash_attn_fwd_matrix(dtype), spec);
      break;
    case AttentionPass::dq: bytes = shared_bytes(kernel::flash_attn_bwd_dq_matrix(dtype, staged), spec); break;
    default: bytes = shared_bytes(kernel::flash_attn_bwd_dkdv_matrix(dtype, staged), spec);
  }
  return bytes <= caps.shared_bytes && static_cast<uint32_t>(plan.local) <= caps.max_workgroup_invocations;
}

AttentionPlan plan_matrix(const DeviceProfile& caps, const MatrixLayout& layout, const AttentionProblem& problem,
                          AttentionPass pass) {
  AttentionPlan plan;
  if (!layout.known || caps.max_push_constant_bytes < 256) return plan;
  // Two operands and the accumulators of 16 rows fill the registers at 128 columns of a subgroup.
  const auto widest = static_cast<int>(std::max(problem.head_dim, problem.v_dim));
  const MatrixShape shape = matrix_shape(caps, pass, problem.banded, problem.plain, round_up(widest, 16));
  if (shape.dim == 0) return plan;
  const bool wide = widest > 128 || shape.parts == 2 || overrides().attention_role_split == 2;
  plan.parts = pass != AttentionPass::forward && wide ? 2 : 1;
  pad_heads(plan, problem);
  plan.hand_over = layout.hand_over && overrides().attention_hand_over;
  plan.local = shape.warps * layout.subgroup;
  plan.rows = shape.rows;
  plan.tile = shape.tile;
  plan.step = std::min(shape.step * 16, shape.tile) / layout.n;  // the table counts 16 columns
  plan.stages = shape.stages;
  if (plan.parts == 2 && lane_elements(layout) % 4 != 0) return plan;
  if (shape.warps % plan.parts != 0 || shape.tile % layout.n != 0 || shape.tile / layout.n % plan.step != 0)
    return plan;
  plan.direct = shape.direct;
  plan.fences = shape.fences;
  plan.block = shape.warps / plan.parts * shape.rows * layout.m;
  plan.family = AttentionFamily::matrix;
  return fits(caps, plan, layout, problem, pass) ? plan : AttentionPlan{};
}

// One block of rows of a subgroup, one stage. Forward tiles as measured on an H200: D 64 4 subgroups, D 128 8.
AttentionPlan plan_staged(const DeviceProfile& caps, const MatrixLayout& layout, const AttentionProblem& problem,
                          AttentionPass pass) {
  AttentionPlan plan;
  if (!layout.usable || caps.max_push_constant_bytes < 256) return plan;
  const bool forward = pass == AttentionPass::forward;
  plan.parts = !forward && std::max(problem.head_dim, problem.v_dim) > 96 ? 2 : 1;
  pad_heads(plan, problem);
  const int widest = std::max(plan.dim, plan.v_dim), m = layout.m, n = layout.n;
  // Wider heads spill registers on RDNA3, where the portable kernels do not.
  if (widest > (caps.vendor() == Vendor::amd ? 192 : 256) || layout.subgroup % m != 0) return plan;
  if (plan.parts == 2 && lane_elements(layout) % 4 != 0) return plan;
  // 512 invocations have 128 registers each on RDNA3.5, and spill there.
  const int lanes = layout.subgroup / m, warps = forward && widest > 64 && layout.subgroup <= 32 ? 8 : 4;
  plan.local = warps * layout.subgroup;
  plan.rows = plan.step = plan.stages = 1;
  plan.tile = widest <= 128 && !caps.is_software() ? 32 : 16;
  plan.block = warps / plan.parts * m;
  if (n % lanes != 0 || n / lanes > 8) return plan;
  plan.hand_over = forward;  // operands that pass between lanes need strips of shared memory; here forward has its own
  plan.family = AttentionFamily::staged;
  return fits(caps, plan, layout, problem, pass) ? plan : AttentionPlan{};
}

// Enough workgroups that each of some 128 multiprocessors has four, a split no shorter than two tiles.
AttentionPlan plan_decode(const DeviceProfile& caps, const AttentionProblem& problem, AttentionPass pass) {
  constexpr int64_t kWorkgroups = 512;
  AttentionPlan plan;
  if (pass != AttentionPass::forward || problem.kv_heads == 0 || problem.head_dim > 256 || problem.v_dim > 256)
    return plan;
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len;
  if (rows < 1 || rows > 16) return plan;
  plan.local = 128;
  plan.rows = 1;
  while (plan.rows < rows) plan.rows *= 2;
  FlashDecodeSpec spec;
  set_plan(spec, plan, problem);
  if (shared_bytes(kernel::flash_decode(), spec) > caps.shared_bytes) return plan;
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t wanted = std::max<int64_t>(1, (kWorkgroups + groups - 1) / std::max<int64_t>(groups, 1));
  constexpr int64_t kMost = 512;  // what flash_decode_combine has room for
  const int64_t most = std::clamp<int64_t>((problem.k_len + 2 * plan.local - 1) / (2 * plan.local), 1, kMost);
  // Many sequences of unlike lengths: smaller pieces even them out.
  const int64_t fine = problem.ragged && groups > 64 ? std::min(4 * kWorkgroups / groups, problem.k_len / 1024) : 0;
  plan.splits = static_cast<int>(std::min(problem.num_splits > 0 ? problem.num_splits : std::max(wanted, fine), most));
  plan.family = AttentionFamily::decode;
  return plan;
}

// Into how many parts the keys of each of `groups` heads go. A workgroup fills one of the `processors`, so they run in
// rounds; a round takes its steps of the keys, two more to begin and to end, and some to put many parts together.
int lanes_splits(int64_t groups, int64_t steps, int64_t processors) {
  int64_t best = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t splits = 1; splits <= std::min(steps, processors); ++splits) {
    const int64_t rounds = (groups * splits + processors - 1) / processors;
    const int64_t cost = rounds * ((steps + splits - 1) / splits + 2 + (splits > 1 ? 1 + splits / 24 : 0));
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return static_cast<int>(best);
}

AttentionPlan plan_lanes(const DeviceProfile& caps, const AttentionProblem& problem, AttentionPass pass, bool asked) {
  AttentionPlan plan;
  if (pass != AttentionPass::forward || !problem.narrow || problem.kv_heads == 0 || problem.batch == 0 ||
      problem.head_dim > 256 || problem.v_dim > 256 || problem.batch > caps.max_group_count[2] ||
      problem.kv_heads > caps.max_group_count[1])
    return plan;
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len, groups = problem.batch * problem.kv_heads;
  const auto cluster = static_cast<int>(caps.min_subgroup_size);
  if (rows < 1 || rows > 16 || !caps.subgroup_shuffle || cluster < 4 || caps.max_push_constant_bytes < 256) return plan;
  plan.rows = 1;
  while (plan.rows < rows && plan.rows < 4) plan.rows *= 2;
  while (plan.rows * plan.parts < rows) plan.parts *= 2;
  const auto chunks = static_cast<int>((std::max(problem.head_dim, problem.v_dim) + 7) / 8);
  plan.columns = plan.rows;
  while (plan.columns < chunks && plan.columns < cluster) plan.columns *= 2;
  // 128 registers hold what flies in 512 invocations, if it is packed; not those of CDNA3, which spills six. A CPU's
  // compiler likes small workgroups.
  const bool cpu = caps.is_software();
  plan.local = cpu ? cluster * plan.parts : problem.packed && caps.vendor() != Vendor::amd ? 512 : 256;
  plan.tile = cpu ? 2 : problem.packed ? 4 : 8;
  if (const Numbers& shape = overrides().attention_shape; asked && shape.count > 0) {
    plan.local = shape.values[0];
    if (shape.count > 1) plan.tile = shape.values[1];
  }
  const auto has_room = [&] {
    FlashDecodeLanesSpec spec;
    set_plan(spec, plan, problem, caps.min_subgroup_size);
    return shared_bytes(kernel::flash_decode_lanes(), spec) <= caps.shared_bytes;
  };
  plan.step = plan.rows;
  while (plan.step > 1 && !has_room()) plan.step /= 2;
  const auto most = static_cast<int>(caps.max_workgroup_invocations);
  while (plan.local > cluster * plan.parts && (plan.local > most || !has_room())) plan.local /= 2;
  if (plan.local > most || !has_room() || plan.local % static_cast<int>(caps.max_subgroup_size) != 0 ||
      plan.local % (cluster * plan.parts) != 0)
    return plan;
  const int64_t step = plan.local / plan.columns / plan.parts * plan.tile;
  const int64_t steps = std::max<int64_t>((problem.k_len + step - 1) / step, 1);
  plan.splits = problem.num_splits > 0 ? static_cast<int>(std::min({problem.num_splits, steps, int64_t{512}}))
                                       : lanes_splits(groups, steps, caps.multiprocessors);
  plan.family = AttentionFamily::lanes;
  return plan;
}

}  // namespace

void set_plan(MatrixSpec& spec, const AttentionPlan& plan, const MatrixLayout& layout) {
  spec.local = plan.local;
  spec.mat_m = layout.m;
  spec.mat_n = layout.n;
  spec.subgroup = layout.subgroup;
  spec.lane_div = layout.lane_div;
  spec.lane_row = layout.lane_row;
  spec.lane_col = layout.lane_col;
  spec.slots = layout.slot_count;
  spec.elem_rows = layout.rows;
  spec.elem_cols = layout.cols;
  spec.elem_of_a = layout.a_elem;
  spec.elem_slots = layout.slots;
  spec.slot_rows = layout.slot_rows;
  spec.d = plan.dim;
  spec.dv = plan.v_dim;
  spec.tile = plan.tile;
  spec.rows = plan.rows;
  spec.step = plan.step;
  spec.stages = plan.stages;
  spec.hand_over = plan.hand_over;
  spec.split = plan.parts;
  spec.fences = plan.fences;
  spec.cuts = layout.cuts;
}

void set_plan(TilesSpec& spec, const TilesShape& shape, int columns) {
  spec.local = shape.local;
  spec.columns = columns;
  spec.r = shape.rows;
  spec.tx = shape.lanes;
  spec.c = shape.columns;
  spec.depth = shape.depth;
  spec.strip = shape.strip;
  spec.stages = shape.stages;
  spec.unroll_s = shape.unroll_scores;
  spec.unroll_o = shape.unroll_result;
}

void set_plan(FlashDecodeSpec& spec, const AttentionPlan& plan, const AttentionProblem& problem) {
  spec.local = plan.local;
  spec.rows = plan.rows;
  spec.chunks = (problem.head_dim + 7) / 8;
  spec.chunks_v = (problem.v_dim + 7) / 8;
}

void set_plan(FlashDecodeLanesSpec& spec, const AttentionPlan& plan, const AttentionProblem& problem,
              uint32_t cluster) {
  spec.local = plan.local;
  spec.members = problem.heads / problem.kv_heads;
  spec.queries = problem.q_len;
  spec.chunks = (problem.head_dim + 7) / 8;
  spec.chunks_v = (problem.v_dim + 7) / 8;
  spec.cluster = cluster;
  spec.lanes = plan.columns;
  spec.keys = plan.tile;
  spec.pass = plan.step;
}

AttentionPlan attention_plan(const DeviceProfile& caps, const MatrixLayout& layout,
                             const AttentionProblem& asked_problem, AttentionPass pass) {
  AttentionProblem problem = asked_problem;
  if (problem.num_splits == 1) problem.q_len = problem.k_len = 1 << 16;  // one plan, whatever the other sequences are
  if (problem.head_dim > kMaxHeadDim || problem.v_dim > kMaxHeadDim) return {};
  const AttentionVariant variant = overrides().attention_variant;
  const bool any = variant == AttentionVariant::any;
  const bool decodes = any && !caps.is_software() && problem.k_len >= 256;
  if (problem.num_splits != 1 && (variant == AttentionVariant::splitkv || decodes)) {
    const AttentionPlan plan = plan_lanes(caps, problem, pass, variant == AttentionVariant::splitkv);
    if (plan.family != AttentionFamily::none) return plan;
  }
  if (problem.num_splits != 1 && (variant == AttentionVariant::splitkv_shared || decodes)) {
    const AttentionPlan plan = plan_decode(caps, problem, pass);
    if (plan.family != AttentionFamily::none) return plan;
  }
  if (variant == AttentionVariant::coopmat || (any && !caps.is_software())) {
    const AttentionPlan plan = plan_matrix(caps, layout, problem, pass);
    if (plan.family != AttentionFamily::none) return plan;
  }
  if (variant == AttentionVariant::coopmat_opaque || (any && !caps.is_software())) {
    const AttentionPlan plan = plan_staged(caps, layout, problem, pass);
    if (plan.family != AttentionFamily::none) return plan;
  }
  const bool rows = variant == AttentionVariant::simd || (variant != AttentionVariant::simt && caps.is_software());
  if (rows) {
    const AttentionPlan plan = plan_rows(caps, problem, pass);
    if (plan.family != AttentionFamily::none) return plan;
  }
  return plan_tiles(caps, problem, pass);
}

const char* attention_family_name(AttentionFamily family) {
  switch (family) {
    case AttentionFamily::rows: return "simd";
    case AttentionFamily::tiles: return "simt";
    case AttentionFamily::matrix: return "coopmat";
    case AttentionFamily::staged: return "coopmat_opaque";
    case AttentionFamily::decode: return "splitkv_shared";
    case AttentionFamily::lanes: return "splitkv";
    default: return "none";
  }
}

}  // namespace aule::ops
