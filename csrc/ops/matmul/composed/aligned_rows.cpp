#include "ops/matmul/composed/aligned_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>

#include "kernels_matmul.gen.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/tuning_table.h"

namespace aule::ops {
namespace {

// Operands that are copied, of a product that is not transposed.
struct Copies {
  bool a = false, b = false, out = false;
};

// Elements of the copies of a, b and out, whose rows are whole vec8s. Matrices that all batches share are copied once.
struct Elements {
  uint64_t a = 0, b = 0, out = 0;
};
Elements elements_of(const Copies& c, const CoopMatPlan& x, const GemmProblem& g) {
  const auto operand = [&](const MatrixView& v, bool k_major, uint32_t rows) {
    const uint64_t matrix = k_major ? uint64_t{rows} * round8(g.k) : uint64_t{g.k} * round8(rows);
    return matrix * (v.batch == 0 ? 1 : g.batches);
  };
  return {.a = c.a ? operand(g.a, x.a.k_major, g.m) : 0,
          .b = c.b ? operand(g.b, x.b.k_major, g.n) : 0,
          .out = c.out ? uint64_t{g.batches} * g.m * round8(g.n) : 0};
}

double time_of(const Copies& c, const CoopMatPlan& x, const GemmProblem& g, const ProductTuning& tuning) {
  const Elements e = elements_of(c, x, g);
  uint64_t all = e.a + e.b + e.out;
  if (c.out && g.has_c && g.c.row != 0) all += e.out;
  if (c.out && g.has_residual) all += e.out;
  return tuning.align_us * (c.a + c.b + c.out) + tuning.align_us_per_element * static_cast<double>(all);
}

// Time that vec8 access saves over scalar access.
double time_saved(const Copies& c, const CoopMatPlan& x, const GemmProblem& g, const ProductTuning& tuning) {
  const uint64_t tiles_m = ceil_div(g.m, x.tile.bm), tiles_n = ceil_div(g.n, x.tile.bn);
  // Loads of each element: a vec8 takes 8 / vec loads instead of one. Two loads were not measured, and count as one.
  const auto loads = [](const OperandPlan& o) { return o.vec == 4 ? 0 : (8.0 / o.vec - 1) / 7; };
  const double in_tiles = static_cast<double>(tiles_m * tiles_n * g.batches) * g.k;
  double saved = 0;
  if (c.a) saved += in_tiles * x.tile.bm * loads(x.a) * tuning.element_load_us;
  if (c.b) saved += in_tiles * x.tile.bn * loads(x.b) * tuning.element_load_us;
  if (c.out && x.out_vec == 1) saved += static_cast<double>(g.batches) * g.m * g.n * tuning.element_store_us;
  return saved;
}

// Time that the tiles of row classes add: there may be more of them.
double time_of_classes(const CoopMatPlan& x, const GemmProblem& g, const ProductTuning& tuning) {
  const uint64_t before = uint64_t{ceil_div(g.m, x.tile.bm)} * ceil_div(g.n, x.tile.bn) * g.batches,
                 after = uint64_t{ceil_div(g.m, 8 * x.tile.bm)} * 8 * ceil_div(g.n + 7, x.tile.bn) * g.batches;
  const uint64_t rounds = ceil_div(after, tuning.workgroups_per_round) - ceil_div(before, tuning.workgroups_per_round);
  for (const TileCost& cost : tuning.coopmat)
    if (cost.tile == x.tile) return static_cast<double>(rounds) * (g.k / 64.0 * cost.us + cost.ends_us);
  return 0;
}

using Halves = AlignedRowsPlan::Halves;

// The cut of a product whose copies take more memory than they may; nothing where none helps.
std::optional<Halves> halves_of(const Copies& c, const CoopMatPlan& x, const GemmProblem& g,
                                const ProductTuning& tuning) {
  constexpr uint32_t kLeast = 512;
  const Elements e = elements_of(c, x, g);
  const uint64_t out_bytes = e.out * dtype_size(g.result), a_bytes = e.a * 2, b_bytes = e.b * 2;
  if (a_bytes + b_bytes + out_bytes <= tuning.align_bytes) return Halves::none;
  if (g.batches > 1) return Halves::batches;
  const bool rows = g.m >= kLeast && (a_bytes >= b_bytes || g.n < kLeast);
  if (!rows && g.n < kLeast) return std::nullopt;
  return rows ? Halves::rows : Halves::columns;
}

}  // namespace

std::optional<GemmPlan> plan_aligned_rows(const DeviceProfile& profile, const GemmProblem& problem,
                                          const GemmPlan& today, const Overrides& overrides) {
  if (overrides.aligned_rows == AlignedRows::never) return std::nullopt;
  const auto& x = std::get<CoopMatPlan>(today.kernel);
  const GemmProblem g = today.transposed ? problem.transposed() : problem;
  const ProductTuning& tuning = product_tuning(profile);
  CoopMatPlan of_copies = x;
  of_copies.a.vec = of_copies.b.vec = 8;
  // With copies of a and b the product may take row classes, when it is planned.
  const bool odd_a = x.a.vec != 8, odd_b = x.b.vec != 8,
             odd_out = x.out_vec == 1 && g.out.col == 1 && !with_row_classes(of_copies, g);
  const bool always = overrides.aligned_rows == AlignedRows::always;
  if (const auto classes = with_row_classes(x, g)) {
    const double saved = time_saved({.out = true}, x, g, tuning);
    if (always || saved > 1.5 * time_of_classes(x, g, tuning) + tuning.align_us)
      return GemmPlan{.transposed = today.transposed, .kernel = *classes};
  }

  std::optional<Copies> best;
  double best_gain = 0;
  for (unsigned chosen = 7; chosen > 0; --chosen) {
    const Copies copies{.a = (chosen & 4) != 0, .b = (chosen & 2) != 0, .out = (chosen & 1) != 0};
    if ((copies.a && !odd_a) || (copies.b && !odd_b) || (copies.out && !odd_out)) continue;
    const double time = time_of(copies, x, g, tuning), saved = time_saved(copies, x, g, tuning);
    // The model is rough, and each copy costs the host a launch: a small gain is none.
    if (!always && saved < 1.5 * time + tuning.align_least_us) continue;
    if (best && (always || saved - time <= best_gain)) continue;
    best = copies;
    best_gain = saved - time;
  }
  if (!best) return std::nullopt;
  const std::optional<Halves> halves = halves_of(*best, x, g, tuning);
  if (!halves) return std::nullopt;

  AlignedRowsPlan plan{.a = best->a,
                       .b = best->b,
                       .out = best->out,
                       .a_k_major = x.a.k_major,
                       .b_k_major = x.b.k_major,
                       .halves = *halves};
  if (today.transposed) {  // the tensors are as they were given
    std::swap(plan.a, plan.b);
    std::swap(plan.a_k_major, plan.b_k_major);
    if (plan.halves == Halves::rows || plan.halves == Halves::columns)
      plan.halves = plan.halves == Halves::rows ? Halves::columns : Halves::rows;
  }
  return GemmPlan{.kernel = plan};
}

// A round that few tiles fill takes as long as a whole one.
std::optional<GemmPlan> plan_parts(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& problem,
                                   const GemmPlan& today, const Overrides& overrides) {
  const ProductTuning& tuning = product_tuning(profile);
  const bool always = overrides.product_parts == ProductParts::always;
  if (overrides.product_parts == ProductParts::never || tuning.shares_us_per_sum == 0) return std::nullopt;
  const GemmProblem g = today.transposed ? problem.transposed() : problem;
  if (g.batches != 1) return std::nullopt;
  const auto us_of = [&](uint32_t rows) {
    GemmProblem part = g;
    part.m = rows;
    const auto plan = plan_coopmat(profile, units, part);
    return plan ? std::get<CoopMatPlan>(plan->kernel).us : std::numeric_limits<double>::infinity();
  };
  constexpr double kGain = 0.9;  // the model is rough
  double best = always ? std::numeric_limits<double>::infinity() : kGain * std::get<CoopMatPlan>(today.kernel).us;
  uint32_t first = 0;
  for (const TileCost& cost : tuning.coopmat) {
    const TilePlan& t = cost.tile;
    const uint64_t columns = ceil_div(g.n, t.bn), tiles = columns * ceil_div(g.m, t.bm),
                   rounds = tiles / tuning.workgroups_per_round,
                   rows = rounds * tuning.workgroups_per_round / columns * t.bm;
    if (!cost.shares || rows == 0 || rows >= g.m) continue;
    const auto count = static_cast<uint32_t>(rows);
    const double us = us_of(count) + us_of(g.m - count) + tuning.splits_us;
    if (us >= best) continue;
    best = us;
    first = count;
  }
  if (first == 0) return std::nullopt;
  return GemmPlan{.kernel = PartsPlan{.of_rows = !today.transposed, .first = first}};  // of the tensors as given
}

namespace {

// [batches, rows, columns] to a tensor with as many columns or more, both contiguous along them; zeros for the rest.
void copy_rows(const at::Tensor& src, const at::Tensor& dst) {
  GemmAlignRowsParams p{};
  TensorArgs args;
  p.src = args.read(src);
  p.dst = args.write(dst);
  p.src_batch = src.stride(0);
  p.src_row = src.stride(1);
  p.dst_batch = dst.stride(0);
  p.dst_row = dst.stride(1);
  p.n = static_cast<uint32_t>(src.size(2));
  p.width = static_cast<uint32_t>(dst.size(2));
  p.rows = static_cast<uint32_t>(dst.size(1));
  p.batches = static_cast<uint32_t>(dst.size(0));
  const bool aligned = p.dst % 16 == 0 && p.dst_row % 8 == 0 && p.dst_batch % 8 == 0;
  p.vec8s = ceil_div(p.width + (aligned ? 0 : 7), 8);
  launch(current(dst), kernel::gemm_align_rows(), {}, p, args,
         linear_grid(ceil_div(uint64_t{p.vec8s} * p.rows * p.batches, GemmAlignRowsParams::kLocal)));
}

// Memory for matrices with rows of whole vec8s, which end past their `columns`.
at::Tensor whole_rows(int64_t batches, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  return at::empty({batches, rows, round8(static_cast<uint32_t>(columns))}, options);
}

// The matrices in rows of whole vec8s, or in columns of them if `transposed`.
at::Tensor aligned(const at::Tensor& t, bool transposed) {
  const bool shared = t.stride(0) == 0;
  const at::Tensor one = shared ? t.narrow(0, 0, 1) : t, src = transposed ? one.transpose(1, 2) : one;
  const at::Tensor dst = whole_rows(src.size(0), src.size(1), src.size(2), t.options());
  copy_rows(src, dst);
  const at::Tensor own = dst.narrow(2, 0, src.size(2)), copy = transposed ? own.transpose(1, 2) : own;
  return shared ? copy.expand_as(t) : copy;
}

// The matrix that is added, in rows like those of `whole`. A row or a column that it repeats is left as it is.
at::Tensor placed_like(const at::Tensor& whole, const at::Tensor& t) {
  if (!t.defined() || t.stride(1) == 0 || t.stride(2) == 0) return t;
  return at::empty_strided(t.sizes(), whole.strides(), t.options()).copy_(t);
}

// The first or the second part of a product in two, which are planned by themselves.
void launch_part(const GemmCall& call, int side, int64_t start, int64_t size) {
  const auto part = [&](const at::Tensor& t, bool has_side) {
    return t.defined() && has_side ? t.narrow(side, start, size) : t;
  };
  GemmEpilogue epilogue = call.epilogue;
  epilogue.residual = part(epilogue.residual, true);
  gemm(call.op, part(call.a, side != 2), part(call.b, side != 1), part(call.c, true), call.beta, call.alpha,
       part(call.out, true), epilogue);
}

}  // namespace

void launch_parts(const GemmCall& call, const PartsPlan& plan) {
  const int side = plan.of_rows ? 1 : 2;
  launch_part(call, side, 0, plan.first);
  launch_part(call, side, plan.first, call.out.size(side) - plan.first);
}

void launch_aligned_rows(const GemmCall& call, const AlignedRowsPlan& plan) {
  const at::Tensor& out = call.out;
  if (plan.halves != Halves::none) {
    const int side = plan.halves == Halves::batches ? 0 : plan.halves == Halves::rows ? 1 : 2;
    const int64_t all = out.size(side), half = side == 0 ? all / 2 : all / 2 / 256 * 256;
    launch_part(call, side, 0, half);
    launch_part(call, side, half, all - half);
    return;
  }
  const at::Tensor a = plan.a ? aligned(call.a, !plan.a_k_major) : call.a,
                   b = plan.b ? aligned(call.b, plan.b_k_major) : call.b;
  if (!plan.out) {
    gemm(call.op, a, b, call.c, call.beta, call.alpha, out, call.epilogue);
    return;
  }
  const bool transposed = out.stride(2) != 1 && out.stride(1) == 1;
  const at::Tensor rows = transposed ? out.transpose(1, 2) : out;
  const at::Tensor own = whole_rows(rows.size(0), rows.size(1), rows.size(2), out.options()).narrow(2, 0, rows.size(2));
  const at::Tensor result = transposed ? own.transpose(1, 2) : own;
  gemm(call.op, a, b, placed_like(result, call.c), call.beta, call.alpha, result, call.epilogue);
  if (out.element_size() != 2 || (out.stride(2) != 1 && !transposed))
    out.copy_(result);
  else
    copy_rows(own, rows);
}

}  // namespace aule::ops
