#include "ops/matmul/kernels/simt.h"

#include <algorithm>
#include <bit>

#include "kernels_matmul.gen.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/kernels/splits.h"
#include "ops/matmul/tuning_table.h"

namespace aule::ops {
namespace {

// The side along which neighbours load.
bool a_is_k_major(const GemmProblem& g) { return g.a.col <= g.a.row; }
bool b_is_k_major(const GemmProblem& g) { return g.b.row < g.b.col; }

// float32 by 16 bytes, where rows allow it.
void set_loads(const GemmProblem& g, OperandPlan& a, OperandPlan& b) {
  const bool a_16_bytes = a.k_major ? loads_16_bytes(g.a, g.a.col, g.a.row, g.k, g.m, g)
                                    : loads_16_bytes(g.a, g.a.row, g.a.col, g.m, g.k, g);
  const bool b_16_bytes = b.k_major ? loads_16_bytes(g.b, g.b.row, g.b.col, g.k, g.n, g)
                                    : loads_16_bytes(g.b, g.b.col, g.b.row, g.n, g.k, g);
  a.vec = g.in == DType::f32 && a_16_bytes ? 4 : 1;
  b.vec = g.in == DType::f32 && b_16_bytes ? 4 : 1;
}

uint64_t scalar_bits(const at::Scalar& s, DType type) {
  return type == DType::f64 ? std::bit_cast<uint64_t>(s.toDouble()) : std::bit_cast<uint64_t>(s.toLong());
}

}  // namespace

GemmPlan plan_scalar(const GemmProblem& g) {
  return {.kernel = ScalarPlan{linear_grid(uint64_t{ceil_div(g.m, 4)} * ceil_div(g.n, 32) * g.batches)}};
}

GemmPlan plan_simt(const GemmProblem& g) {
  return {.kernel = SimtPlan{.a_k_major = a_is_k_major(g),
                             .b_k_major = b_is_k_major(g),
                             .grid = linear_grid(uint64_t{ceil_div(g.m, 64)} * ceil_div(g.n, 64) * g.batches)}};
}

std::optional<GemmPlan> plan_simt_large(const DeviceProfile& profile, const GemmProblem& g) {
  constexpr uint32_t kTile = 128;
  const uint64_t groups = uint64_t{ceil_div(g.m, kTile)} * ceil_div(g.n, kTile) * g.batches;
  const bool served = g.in == g.result && (g.in == DType::f32 || g.in == DType::f16 || g.in == DType::bf16);
  if (is_simd_device(profile) || !served || std::min(g.m, g.n) < 64 ||
      groups < product_tuning(profile).simt_large_workgroups)
    return std::nullopt;
  SimtLargePlan plan;
  plan.a.k_major = a_is_k_major(g);
  plan.b.k_major = b_is_k_major(g);
  set_loads(g, plan.a, plan.b);
  const bool residual_16_bytes = !g.has_residual || g.residual % 16 == 0;
  plan.out_vec =
      g.in == DType::f32 && residual_16_bytes && loads_16_bytes(g.out, g.out.col, g.out.row, g.n, g.m, g) ? 4 : 1;
  plan.grid = linear_grid(groups);
  return GemmPlan{.kernel = plan};
}

std::optional<GemmPlan> plan_simt_splits(const DeviceProfile& profile, const GemmProblem& problem,
                                         uint32_t least_splits) {
  constexpr uint32_t kColumns = 128, kStep = 8, kLeastSplit = 64, kMostSplits = 64;
  constexpr uint32_t kWorkgroupsEach = 2;  // of a multiprocessor
  if (is_simd_device(profile) || problem.in != DType::f32 || problem.result != DType::f32) return std::nullopt;
  const bool may_add = profile.max_push_constant_bytes >= sizeof(GemmSplitsParams);
  if (std::min(problem.m, problem.n) <= 4 || (least_splits > 1 && !may_add)) return std::nullopt;
  const bool transposed = problem.m > problem.n;
  const GemmProblem g = transposed ? problem.transposed() : problem;
  SimtSplitsPlan plan;
  plan.rows = g.m <= 32 ? 4 : 8;
  const uint64_t tiles = uint64_t{ceil_div(g.m, 8 * plan.rows)} * ceil_div(g.n, kColumns) * g.batches;
  const uint64_t wanted = tiles == 0 ? 1 : kWorkgroupsEach * product_tuning(profile).workgroups_per_round / tiles;
  const auto most =
      static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, std::min(kMostSplits, ceil_div(g.k, kLeastSplit))));
  plan.k_split = ceil_div(ceil_div(g.k, most), kStep) * kStep;
  plan.splits = ceil_div(g.k, plan.k_split);  // none is empty
  if (plan.splits < least_splits) return std::nullopt;
  plan.a.k_major = a_is_k_major(g);
  plan.b.k_major = b_is_k_major(g);
  set_loads(g, plan.a, plan.b);
  plan.grid = linear_grid(tiles * plan.splits);
  return GemmPlan{transposed, plan};
}

void launch_simt(const GemmCall& call, const SimtPlan& plan) {
  const GemmProblem& g = call.problem;
  launch(call.stream(), kernel::gemm_simt(),
         {.dtype = g.in,
          .a_k_major = plan.a_k_major,
          .b_k_major = plan.b_k_major,
          .has_c = g.has_c,
          .activation = static_cast<int>(g.activation),
          .residual = g.has_residual},
         params_of<GemmSimtParams>(call), call.args, plan.grid);
}

void launch_simt_large(const GemmCall& call, const SimtLargePlan& plan) {
  const GemmProblem& g = call.problem;
  launch(call.stream(), kernel::gemm_simt_large(),
         {.dtype = g.in,
          .a_k_major = plan.a.k_major,
          .b_k_major = plan.b.k_major,
          .a_vec = plan.a.vec,
          .b_vec = plan.b.vec,
          .has_c = g.has_c,
          .out_vec = plan.out_vec,
          .activation = static_cast<int>(g.activation),
          .residual = g.has_residual},
         params_of<GemmSimtLargeParams>(call), call.args, plan.grid);
}

void launch_simt_split_sums(const GemmCall& call, const SimtSplitsPlan& plan, uint64_t sums, const TensorArgs& args) {
  auto p = params_of<GemmSimtSplitsParams>(call);
  p.out_ = sums;
  p.k_split = plan.k_split;
  launch(call.stream(), kernel::gemm_simt_splits(),
         {.a_k_major = plan.a.k_major,
          .b_k_major = plan.b.k_major,
          .a_vec = plan.a.vec,
          .b_vec = plan.b.vec,
          .rows = static_cast<int>(plan.rows)},
         p, args, plan.grid);
}

void launch_simt_splits(const GemmCall& call, const SimtSplitsPlan& plan) {
  const SplitSums sums(call, plan.splits);
  launch_simt_split_sums(call, plan, sums.address(), sums.written());
  sums.add();
}

void launch_scalar(const GemmCall& call, const ScalarPlan& plan) {
  const GemmProblem& g = call.problem;
  auto p = operands_of<GemmScalarParams>(g);
  p.alpha_bits = scalar_bits(call.alpha, g.in);
  p.beta_bits = g.has_c ? scalar_bits(call.beta, g.in) : 0;
  launch(call.stream(), kernel::gemm_scalar(g.in == DType::f64 ? DType::f64 : DType::i64),
         {.dtype = g.in, .out_dtype = g.result, .has_c = g.has_c}, p, call.args, plan.grid);
}

}  // namespace aule::ops
