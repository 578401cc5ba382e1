#include "ops/matmul/kernels/coopmat.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/matmul/launch.h"
#include "ops/matmul/tuning_table.h"

namespace aule::ops {
namespace {

// `row` and `k` are the strides along m or n and along k. vec 0: the kernel cannot read the operand. Rows may end
// inside a load, since an aligned one with an element of a tensor does not leave the memory that was allocated.
OperandPlan classify(const MatrixView& v, int64_t row, int64_t k, uint32_t rows, uint32_t depth, uint32_t batches) {
  OperandPlan o;
  o.k_major = k == 1 || (row != 1 && depth == 1);
  const int64_t unit = o.k_major ? k : row, ld = o.k_major ? row : k;
  const uint32_t extent = o.k_major ? depth : rows, across = o.k_major ? rows : depth;
  if ((unit != 1 && extent != 1) || ld < 0) return o;
  for (int vec : {8, 4, 2, 1}) {
    const bool aligned = (ld % vec == 0 || across == 1) && (v.batch % vec == 0 || batches == 1) &&
                         v.address % (2 * static_cast<uint64_t>(vec)) == 0;
    if (!aligned) continue;
    if (ld < (1 << 22)) o.vec = vec;  // offsets inside a tile have 32 bits
    break;
  }
  return o;
}

// Rows of out and c begin with a vec8. They may end inside one, of which the kernel stores the row's own elements.
bool in_vec8(const MatrixView& v, const GemmProblem& g) {
  return v.col == 1 && (v.row % 8 == 0 || g.m == 1) && (v.batch % 8 == 0 || g.batches == 1) && v.address % 16 == 0;
}

// Both operands mn-major: matrices come straight from padded tiles, of which 48 k fit, and nothing is transposed.
bool is_padded(const TilePlan& t) { return t.bk == 48; }

bool is_large(const TilePlan& t) { return t.bm * t.bn > 128 * 128; }

// Large tiles that check addresses: whole lines are too much if both operands are k-major.
int line_of(const CoopMatPlan& x) {
  return x.tile.bk != 64 || (is_large(x.tile) && x.a.k_major && x.b.k_major && x.addresses == 0) ? 4 : 8;
}

using Fragments = CoopMatPlan::Fragments;

// Gives the plan the tile, if the kernel can work with it.
bool set_tile(CoopMatPlan& x, const TilePlan& t, const DeviceProfile& profile, const MatrixLayout& layout) {
  const bool ordered = is_ordered(layout), padded = !ordered || is_padded(t);
  const bool both_mn_major = !x.a.k_major && !x.b.k_major;
  if (is_padded(t) && (!ordered || !both_mn_major)) return false;
  if (is_large(t) && ordered && both_mn_major && !is_padded(t)) return false;  // a fifth slower than the padded tiles
  const int bm = static_cast<int>(t.bm), bk = static_cast<int>(t.bk);
  const int subgroups = static_cast<int>((t.bm / t.wm) * (t.bn / t.wn)), local = subgroups * layout.subgroup;
  if (static_cast<uint32_t>(local) > profile.max_workgroup_invocations) return false;
  if (static_cast<int>(t.wn) % (2 * layout.n) != 0) return false;
  for (auto [side, k_major] : {std::pair{t.bm, x.a.k_major}, std::pair{t.bn, x.b.k_major}}) {
    const int rows = static_cast<int>(side), vec8s = rows * bk / 8;
    if (vec8s % local != 0 || local > rows * 4) return false;
    if (!k_major && !padded && (vec8s / local % 4 != 0 || local % (rows / 2) != 0)) return false;
    if (!k_major && padded && local % (rows / 8) != 0) return false;
  }
  // An order that is not known gets the tiles that need few registers and little code.
  if (!ordered && (subgroups > 4 || bm * bk / 8 > 8 * local)) return false;
  x.tile = t;
  x.local = local;
  x.fragments = !ordered ? Fragments::opaque : is_padded(t) ? Fragments::padded : Fragments::ordered;
  return shared_bytes(kernel::gemm_coopmat(DType::f16, static_cast<int>(x.fragments), 0),
                      tile_spec<GemmCoopmatSpec>(x)) <= profile.shared_bytes;
}

// Whether whole tiles may begin at m - bm and n - bn: loads and stores there are as wide as elsewhere.
bool may_move(const CoopMatPlan& x, const GemmProblem& g) {
  const TilePlan& t = x.tile;
  return g.m >= t.bm && g.n >= t.bn && (g.m % t.bm == 0 || x.a.k_major || g.m % 8 == 0) &&
         (g.n % t.bn == 0 || g.n % 8 == 0);
}

// Whole tiles while they fill rounds. The others, or a round more of them, are shared by the workgroups of a round.
struct Shared {
  uint32_t whole = 0, share = 0;
  double time = std::numeric_limits<double>::infinity();
};
std::optional<Shared> best_shares(const TileCost& cost, uint64_t tiles, uint32_t k, const ProductTuning& tuning) {
  const TilePlan& t = cost.tile;
  const uint32_t steps = ceil_div(k, t.bk), per_round = tuning.workgroups_per_round;
  const double step_us = t.bk / 64.0 * cost.us;
  constexpr uint32_t kLeastShare = 8;
  if (tuning.shares_us_per_sum == 0 || !cost.shares || tiles * steps >= (uint64_t{1} << 31)) return std::nullopt;
  Shared best;
  for (const uint32_t more : {0u, 1u}) {
    if (tiles / per_round < more) continue;
    Shared s{.whole = static_cast<uint32_t>(tiles / per_round - more) * per_round};
    const auto shared = static_cast<uint32_t>(tiles - s.whole);
    s.share = std::max(ceil_div(shared * steps, per_round), kLeastShare);
    if (shared == 0 || s.share >= steps) continue;
    // A workgroup's share ends one tile and begins the next.
    s.time = s.whole / per_round * (steps * step_us + cost.ends_us) + s.share * step_us + 2 * cost.ends_us +
             tuning.splits_us + tuning.shares_us_per_sum * (shared + per_round) * t.bm * t.bn;
    if (s.time < best.time) best = s;
  }
  if (best.share == 0) return std::nullopt;
  return best;
}

// The tile and the split of k, or the shares, that take least time.
std::optional<CoopMatPlan> best_tile(const CoopMatPlan& operands, const DeviceProfile& profile,
                                     const MatrixLayout& layout, const GemmProblem& g, bool may_share,
                                     const DecodedOperand& decoded) {
  const ProductTuning& tuning = product_tuning(profile);
  const uint64_t per_round = tuning.workgroups_per_round;
  std::optional<CoopMatPlan> best;
  double best_time = 0;
  for (TileCost cost : tuning.coopmat) {
    const TilePlan& t = cost.tile;
    CoopMatPlan x = operands;
    if (t.bk % decoded.step != 0 || (decoded.step > 1 && g.k % t.bk != 0)) continue;
    cost.us += decoded.us_per_column * t.bn;
    if (!set_tile(x, t, profile, layout)) continue;
    // An mn-major operand is transposed on the way in, which wants the narrower side.
    if (t.bm > t.bn && !x.a.k_major && x.b.k_major) continue;
    if (t.bn > t.bm && !x.b.k_major && x.a.k_major) continue;
    const uint64_t groups = uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) * g.batches;
    const uint32_t steps = ceil_div(g.k, t.bk);
    // Splits fill the last round. Of many rounds it is a small part.
    const uint32_t most = groups < 4 * per_round ? std::min(groups < per_round ? 64u : 4u, ceil_div(steps, 4)) : 1;
    for (uint32_t wanted = 1; wanted <= most; ++wanted) {
      const auto [splits, time] =
          split_cost(tuning, cost, groups, g.k, static_cast<double>(g.m) * g.n * g.batches, wanted);
      if (best && time >= best_time) continue;
      best = x;
      best->splits = splits;
      best->us = best_time = time;
    }
    if (const auto shared = may_share ? best_shares(cost, groups, g.k, tuning) : std::nullopt;
        shared && best && shared->time < 0.95 * best_time) {  // small gains were losses
      best = x;
      best->whole = shared->whole;
      best->share = shared->share;
      best->us = best_time = shared->time;
    }
  }
  return best;
}

}  // namespace

// The order that gemm_coopmat.comp's fragments are written for.
bool is_ordered(const MatrixLayout& l) {
  return l.known && l.b_is_a_transposed && l.m == 16 && l.n == 16 && l.subgroup == 32 && l.elements == 8 &&
         l.lane_div == 4 && l.lane_row == 1 && l.lane_col == 2 && l.rows == 0x88880000u && l.cols == 0x98109810u &&
         l.a_elem == 0x76543210u;
}

std::optional<GemmPlan> plan_coopmat(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& problem,
                                     const DecodedOperand& decoded) {
  if (problem.in != problem.result && problem.result != DType::f32) return std::nullopt;
  if (problem.in != DType::f16 && problem.in != DType::bf16) return std::nullopt;
  if (profile.max_push_constant_bytes < sizeof(GemmCoopmatParams)) return std::nullopt;
  if (!units.layout.usable || std::min(problem.m, problem.n) <= 4) return std::nullopt;
  if (profile.software_simd()) return std::nullopt;  // gemm_simd.comp has no barrier
  // Rows of the result should be contiguous.
  const bool transposed = problem.out.col != 1 && problem.out.row == 1;
  const GemmProblem g = transposed ? problem.transposed() : problem;

  CoopMatPlan operands;
  operands.a = classify(g.a, g.a.row, g.a.col, g.m, g.k, g.batches);
  operands.b = classify(g.b, g.b.col, g.b.row, g.n, g.k, g.batches);
  if (operands.a.vec == 0 || operands.b.vec == 0) return std::nullopt;
  operands.mat_m = units.layout.m;
  operands.mat_n = units.layout.n;
  // The kernel's results; or its float32 sums, which are the result, or have to pass through a second kernel.
  const bool dense = g.out.col == 1 && (g.out.row == g.n || g.m == 1) &&
                     (g.out.batch == int64_t{g.m} * g.n || g.batches == 1) && g.out.address % 8 == 0;
  using Writes = CoopMatPlan::Writes;
  const Writes writes = g.result == g.in                                           ? Writes::result
                        : !g.has_c && g.alpha_is_one && !g.has_epilogue() && dense ? Writes::sums
                                                                                   : Writes::split_sums;
  const auto best = best_tile(operands, profile, units.layout, g, writes != Writes::split_sums, decoded);
  if (!best) return std::nullopt;
  CoopMatPlan x = *best;
  const TilePlan& t = x.tile;

  // The step with the remainder of k comes first, so only that load checks bounds, unless it is the only one: the loop
  // loads the last step twice.
  const uint32_t steps = ceil_div(g.k, t.bk);
  using KChecks = CoopMatPlan::KChecks;
  x.k_checks = g.k % t.bk == 0 ? KChecks::none : steps == 1 ? KChecks::every_step : KChecks::first_step;
  x.is_ragged = g.m % t.bm != 0 || g.n % t.bn != 0;
  x.moves_last = x.is_ragged && decoded.step == 1 && may_move(x, g);
  x.is_ragged = x.is_ragged && !x.moves_last;
  // The large tiles have no registers to spare: the cheapest addresses where nothing is checked.
  const bool large = is_large(t), nt = x.a.k_major && x.b.k_major;
  if (large && x.fragments == Fragments::ordered && !x.is_ragged && x.a.vec == 8 && x.b.vec == 8 &&
      (x.a.k_major || x.b.k_major)) {
    x.addresses = nt ? 1 : 2;
    x.pairs = nt;
  }
  x.line = line_of(x);
  const uint64_t tiles = uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) * g.batches;
  x.grid = linear_grid(x.share == 0 ? tiles * x.splits : x.whole + ceil_div((tiles - x.whole) * steps, x.share));
  x.writes = x.splits == 1 ? writes : Writes::split_sums;
  if (x.writes == Writes::result) {
    x.c_vec = !g.has_c ? 0 : in_vec8(g.c, g) ? 8 : 1;
    x.out_vec = in_vec8(g.out, g) && (!g.has_residual || g.residual % 16 == 0) ? 8 : 1;
    x.odd_n = x.out_vec == 8 && g.n % 8 != 0;
  }
  return GemmPlan{transposed, x};
}

std::optional<CoopMatPlan> with_row_classes(const CoopMatPlan& plan, const GemmProblem& g) {
  const bool serves = plan.writes == CoopMatPlan::Writes::result && plan.out_vec == 1 && g.out.col == 1 &&
                      plan.fragments != Fragments::padded && plan.a.k_major && plan.b.k_major && plan.a.vec == 8 &&
                      plan.b.vec == 8 && g.m >= 8;
  if (!serves) return std::nullopt;
  CoopMatPlan x = plan;
  x.row_classes = true;
  x.whole = x.share = 0;
  x.out_vec = 8;
  x.c_vec = std::min(x.c_vec, 1);
  x.is_ragged = true;
  x.moves_last = false;
  x.addresses = 0;
  x.pairs = false;
  x.line = line_of(x);
  // The last tiles of columns begin up to 7 columns earlier.
  x.grid = linear_grid(uint64_t{ceil_div(g.m, 8 * x.tile.bm)} * 8 * ceil_div(g.n + 7, x.tile.bn) * g.batches);
  return x;
}

void launch_coopmat_sums(const GemmCall& call, const CoopMatPlan& plan, uint64_t sums, const TensorArgs& args) {
  launch_sums(DenseOperands{}, call, plan, sums, args);
}

void launch_coopmat(const GemmCall& call, const CoopMatPlan& plan) { launch_product(DenseOperands{}, call, plan); }

}  // namespace aule::ops
