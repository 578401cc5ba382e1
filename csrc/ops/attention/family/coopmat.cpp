#include "ops/attention/family/coopmat.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "ops/attention/ds_workspace.h"
#include "ops/attention/family/launch.h"
#include "ops/attention/family/tuning_table.h"

namespace aule::ops {
namespace {

// Elements of an accumulator in a lane, also if the layout is unknown.
int lane_elements(const MatrixLayout& layout) { return layout.m * layout.n / layout.subgroup; }

// For `plan.role_split` subgroups side by side. Two run the same code, one for query and key, one for value.
void pad_heads(FlashCoopMatPlan& plan, const AttentionProblem& problem) {
  plan.dim = narrow<int>(round_up(problem.head_dim, 16 * plan.role_split));
  plan.v_dim = narrow<int>(round_up(problem.v_dim, 16 * plan.role_split));
  if (plan.role_split == 2) plan.dim = plan.v_dim = std::max(plan.dim, plan.v_dim);
}

constexpr int kMostListed = 2048;  // blocks of a mask in a workgroup's list: 8 KiB of shared memory

// Sets the members that depend on the problem's mask. The plan's tiles are known.
void set_mask(FlashCoopMatPlan& plan, const AttentionProblem& problem, AttentionPass pass) {
  const AttentionMask& mask = problem.mask;
  const bool dkdv = pass == AttentionPass::dkdv, forward = pass == AttentionPass::forward;
  const bool known_forward = forward && !plan.opaque;  // flash_attn_fwd_coopmat
  plan.unmodified_scores = problem.unmodified_scores && (mask.kind != AttentionMask::Kind::alibi || known_forward);
  if (!mask.has_blocks()) return;
  const int row_side = dkdv ? mask.block_k : mask.block_q, tile_side = dkdv ? mask.block_q : mask.block_k;
  const int64_t passing = dkdv ? problem.q_len : problem.k_len, blocks = ceil_div(passing, int64_t{tile_side});
  plan.whole_blocks = row_side % plan.block == 0 && tile_side % plan.tile == 0 && problem.unmodified_scores &&
                      (!known_forward || blocks <= kMostListed);
  plan.unmodified_scores = plan.whole_blocks;
  plan.skips_tiles = !(plan.whole_blocks && forward);
  // 8 to 2048: few pipelines, and short lists leave room for as many workgroups.
  if (plan.whole_blocks && known_forward) {
    plan.listed = 8;
    while (plan.listed < blocks) plan.listed *= 4;
  }
}

// One driver hangs if a kernel has more shared memory than the device.
bool has_room(const DeviceProfile& profile, const FlashCoopMatPlan& plan, const AttentionProblem& problem,
              AttentionPass pass) {
  CoopMatSpec spec;
  set_plan(spec, plan, problem.layout);
  spec.listed = plan.listed;
  if (problem.float_bias()) spec.bias_dtype = DType::f32;
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

// The layout in which lanes read accumulators back from shared memory: a lane has consecutive columns of one row.
MatrixLayout lanes_along_rows(const MatrixLayout& found) {
  MatrixLayout l = found;
  l.lane_div = l.subgroup / l.m;
  l.lane_row = 1;
  l.lane_col = l.n / l.lane_div;
  l.rows = l.a_elem = l.elem_lane_rows = l.lane_row_offsets = 0;
  l.cols = 0x76543210;
  l.lane_rows = 1;
  return l;
}

}  // namespace

bool FlashCoopMatPlan::is_usual(const DeviceProfile& profile, const AttentionProblem&, AttentionVariant asked) {
  return asked == AttentionVariant::any && !profile.is_software();
}

bool has_unmodified_tiles(const AttentionProblem& problem) {
  constexpr int kTiles = 128;  // the larger side of the tiles for unmodified scores
  const AttentionMask& mask = problem.mask;
  const bool whole = !mask.has_blocks() || (mask.block_q % kTiles == 0 && mask.block_k % kTiles == 0);
  return problem.unmodified_scores && whole;
}

std::optional<FlashCoopMatPlan> FlashCoopMatPlan::make(const DeviceProfile& profile, const AttentionProblem& problem,
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
  plan.stages = problem.mask.has_blocks() && pass != AttentionPass::forward ? 1 : entry.stages;
  if (plan.role_split == 2 && lane_elements(layout) % 4 != 0) return {};
  if (entry.subgroups % plan.role_split != 0 || entry.tile % layout.n != 0 ||
      entry.tile / layout.n % plan.blocks_in_flight != 0)
    return {};
  plan.from_global = entry.from_global;
  plan.motion_barriers = entry.motion_barriers;
  plan.block = entry.subgroups / plan.role_split * entry.row_blocks * layout.m;
  set_mask(plan, problem, pass);
  if (!has_room(profile, plan, problem, pass)) return {};
  return plan;
}

// One block of rows of a subgroup, one stage. Forward tiles as measured on an H200: D 64 4 subgroups, D 128 8.
std::optional<FlashCoopMatOpaquePlan> FlashCoopMatOpaquePlan::make(const DeviceProfile& profile,
                                                                   const AttentionProblem& problem, AttentionPass pass,
                                                                   const Overrides&) {
  const MatrixLayout& layout = problem.layout;
  if (!layout.usable || profile.max_push_constant_bytes < 256) return {};
  FlashCoopMatOpaquePlan plan;
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
  set_mask(plan, problem, pass);
  if (!has_room(profile, plan, problem, pass)) return {};
  return plan;
}

std::string text_of(const FlashCoopMatPlan& p) {
  std::ostringstream text;
  text << " local=" << p.local << " dim=" << p.dim << " v_dim=" << p.v_dim << " row_blocks=" << p.row_blocks
       << " tile=" << p.tile << " blocks_in_flight=" << p.blocks_in_flight << " stages=" << p.stages
       << " role_split=" << p.role_split << " from_global=" << p.from_global << " motion_barriers=" << p.motion_barriers
       << " acc_is_a_operand=" << p.acc_is_a_operand << " block=" << p.block;
  if (p.skips_tiles || p.whole_blocks) text << " whole_blocks=" << p.whole_blocks << " listed=" << p.listed;
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

void set_call(CoopMatSpec& spec, const AttentionCall& call, const FlashCoopMatPlan& plan, AttentionPass pass,
              const AttentionOperands& operands, const DsMode& mode) {
  const MatrixLayout l = plan.opaque ? lanes_along_rows(call.problem.layout) : call.problem.layout;
  set_plan(spec, plan, l);
  const auto row_bytes = [](const at::Tensor& t) { return t.size(2) == 1 ? int64_t{0} : 2 * t.stride(2); };
  spec.a_row_bytes = row_bytes(*operands.tiled[0]);
  spec.b_row_bytes = row_bytes(*operands.tiled[1]);

  const AttentionProblem& problem = call.problem;
  const bool dkdv = pass == AttentionPass::dkdv, ragged = call.ragged.given;
  const bool padded = plan.dim != problem.head_dim || plan.v_dim != problem.v_dim;
  const bool aligned = multiples_of(8, operands.rows);
  // Whether the rows that pass end with a tile. dK/dV masks queries beyond the last by their log-sum-exp.
  const int64_t passing = dkdv ? problem.q_len : problem.k_len, own = dkdv ? problem.k_len : problem.q_len;
  const bool whole = !ragged && passing % (mode.writes_ds ? 8 * l.m : plan.tile) == 0;
  spec.aligned = aligned;
  spec.padded = padded;
  spec.bounded_left = call.left < kUnbounded;
  const bool known_forward = pass == AttentionPass::forward && !plan.opaque;  // flash_attn_fwd_coopmat
  spec.listed = plan.listed;
  spec.unmodified_scores = plan.unmodified_scores;
  spec.grad_bias = operands.grad_bias;
  spec.unmasked = !problem.masked && !plan.skips_tiles && (dkdv || whole);
  spec.whole_tiles = whole;
  // Tiles and blocks at any row: neither dropout's cells nor a mask's blocks are cut there.
  using Kind = AttentionMask::Kind;
  const bool anywhere = known_forward && aligned && !padded && !ragged && call.dropout_steps == 0 &&
                        problem.mask.kind != Kind::blocks && problem.mask.kind != Kind::alibi;
  spec.moves_last_tile = anywhere && !whole && passing >= plan.tile;
  const bool loads_matrices = plan.from_global != 0 && passing >= plan.from_global && aligned && !padded && !ragged;
  const bool moves_last_block = anywhere && loads_matrices && own % plan.block != 0 && own >= plan.block;
  spec.moves_last_block = moves_last_block;
  spec.from_global = loads_matrices && (own % plan.block == 0 || moves_last_block);
  // sums_delta() in attention.glsl
  spec.sums_delta = pass == AttentionPass::dq && (ragged || problem.masked || problem.k_len <= 64 + plan.block);
  spec.only_delta = mode.only_delta;
  spec.writes_ds = mode.writes_ds;
  spec.ds_in_pairs = mode.pairs;
  spec.ds_triangle = mode.triangle;
  // The layout in which lanes have whole cells of dropout (coopmat_dropout.glsl), and sizes that its words fit.
  spec.whole_cells = call.dropout_steps > 0 && l.known && l.subgroup == 32 && l.m == 16 && l.n == 16 &&
                     l.elements == 8 && l.lane_div == 4 && l.lane_row == 1 && l.lane_col == 2 && l.rows == 0x88880000 &&
                     l.cols == 0x98109810 && plan.row_blocks <= 2 &&
                     (plan.blocks_in_flight == 1 ||
                      (plan.blocks_in_flight % 2 == 0 && plan.blocks_in_flight <= 8 && plan.tile % 32 == 0));
}

void launch_forward(const AttentionCall& call, const FlashCoopMatPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp) {
  const DType dtype = call.problem.dtype;
  if (plan.opaque)
    launch_flash_forward(kernel::flash_attn_fwd_coopmat_opaque(dtype), call, plan, out, logsumexp);
  else
    launch_flash_forward(kernel::flash_attn_fwd_coopmat(dtype), call, plan, out, logsumexp);
}
void launch_dq(const Backward& backward, const FlashCoopMatPlan& plan) {
  launch_flash_dq(kernel::flash_attn_bwd_dq_coopmat(backward.call.problem.dtype, plan.opaque), backward, plan);
}
void launch_dkdv(const Backward& backward, const FlashCoopMatPlan& plan) {
  launch_flash_dkdv(kernel::flash_attn_bwd_dkdv_coopmat(backward.call.problem.dtype, plan.opaque), backward, plan);
}

namespace {

void launch_dq_from_ds(const Backward& b, const DsWorkspacePlan& workspace, const Chunk& chunk) {
  AttentionCall call = b.call;
  const auto& problem = b.call.problem;
  const uint64_t groups = workgroups(workspace.dq, chunk.heads * (problem.heads / problem.kv_heads), problem.q_len);
  TensorArgs args;
  auto p = attention_params<FlashAttnBwdDqFromDsParams>(b.call, args, static_cast<uint32_t>(groups));
  p.ds_workspace = args.read(chunk.scores);
  p.grad_query = args.write(b.grad_query);
  set_strides(p.grad_query_stride, b.grad_query);
  args.work = attention_work(b.call, 1, 0);
  args.work.flops *= static_cast<double>(chunk.heads) / static_cast<double>(problem.kv_heads);
  p.first_head = static_cast<uint32_t>(chunk.first);
  p.key_blocks = static_cast<uint32_t>(workspace.key_blocks);
  call.problem.v_dim = workspace.dq.v_dim;  // the other operand of the product is dS, of whole blocks
  const auto spec = attention_spec<CoopMatSpec>(call, workspace.dq, AttentionPass::dq,
                                                {{&b.call.key, &b.grad_query}, {&b.call.key, &b.call.key}},
                                                {.pairs = workspace.pairs, .triangle = workspace.triangle});
  launch(current(b.call.query), kernel::flash_attn_bwd_dq_from_ds(problem.dtype), spec, p, args, linear_grid(groups));
}

}  // namespace

bool launch_with_ds_workspace(const Backward& b, const FlashCoopMatPlan& dq_plan, const FlashCoopMatPlan& dkdv_plan) {
  const auto& problem = b.call.problem;
  if (b.grad_bias.defined() || problem.mask.has_blocks()) return false;
  const auto plan =
      plan_ds_workspace(profile_of(b.call.query), ds_workspace_problem(b.call, dq_plan, dkdv_plan), overrides());
  if (!plan) return false;
  const DsWorkspacePlan& workspace = *plan;
  const std::vector<at::Tensor> halves = allocate_ds_workspace(b.call, workspace);
  if (halves.empty()) return false;
  // Corrects delta of blocks of queries that see few keys.
  if (problem.masked || problem.k_len <= 64 + dq_plan.block)
    launch_flash_dq(kernel::flash_attn_bwd_dq_coopmat(problem.dtype, false), b, dq_plan, {.only_delta = true});
  const int64_t heads = problem.batch * problem.kv_heads;
  const auto chunk_at = [&](int64_t first) {
    return Chunk{first, std::min(workspace.heads, heads - first),
                 halves[static_cast<size_t>(first / workspace.heads) % halves.size()], workspace.triangle};
  };
  const auto dkdv = kernel::flash_attn_bwd_dkdv_coopmat(problem.dtype, false);
  launch_flash_dkdv(dkdv, b, dkdv_plan, chunk_at(0));
  for (int64_t first = 0; first < heads; first += workspace.heads) {
    launch_dq_from_ds(b, workspace, chunk_at(first));
    const int64_t next = first + workspace.heads;
    if (next < heads)
      launch_flash_dkdv(dkdv, b, dkdv_plan, chunk_at(next));  // at the same time, if there are two halves
  }
  return true;
}

}  // namespace aule::ops
