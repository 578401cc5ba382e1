#include "ops/matmul/kernels/gemv.h"

#include <algorithm>

#include "kernels_matmul.gen.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/tuning_table.h"

namespace aule::ops {

std::optional<GemmPlan> plan_few_rows(const DeviceProfile& profile, const MatrixUnits& units,
                                      const GemmProblem& problem) {
  constexpr uint32_t kMost = 16;
  const bool served = problem.in == problem.result &&
                      (problem.in == DType::f32 || problem.in == DType::f16 || problem.in == DType::bf16);
  if (is_simd_device(profile) || !served || std::min(problem.m, problem.n) > kMost) return std::nullopt;
  const bool transposed = problem.m > problem.n;
  const GemmProblem g = transposed ? problem.transposed() : problem;
  const auto e = static_cast<uint32_t>(16 / dtype_size(g.in));
  // The tail of k is read from a one by one, so that k need not divide.
  if (!loads_16_bytes(g.a, g.a.col, g.a.row, e, g.m, g)) return std::nullopt;
  const bool k_major = loads_16_bytes(g.b, g.b.row, g.b.col, g.k, g.n, g),
             n_major = loads_16_bytes(g.b, g.b.col, g.b.row, g.n, g.k, g);
  if (!k_major && !n_major) return std::nullopt;
  // A single row has no use for matrices.
  if (g.m > 1 && g.in != DType::f32 && is_ordered(units.layout) && (k_major || g.k % 4 == 0)) {
    GemvCoopMatPlan plan;
    plan.wide = k_major || g.m > 8 || uint64_t{g.n} * g.batches >= product_tuning(profile).gemv_coopmat_columns ? 8 : 4;
    plan.local = std::min(512u, profile.max_workgroup_invocations / 32 * 32);
    plan.b_k_major = k_major;
    plan.grid = linear_grid(uint64_t{ceil_div(g.n, k_major ? 32 : plan.wide * 8)} * g.batches);
    return GemmPlan{transposed, plan};
  }
  GemvWidePlan plan;
  plan.rows = g.m <= 1 ? 1 : g.m <= 2 ? 2 : g.m <= 4 ? 4 : 8;
  plan.b_k_major = k_major;
  const uint32_t columns = k_major ? plan.rows <= 4 ? 4 : 2 : e;  // of a slice
  // More invocations on one column while there are too few workgroups, or lines of memory read in parts.
  const ProductTuning& tuning = product_tuning(profile);
  const uint32_t enough = k_major ? tuning.gemv_k_major_workgroups : tuning.gemv_mn_major_workgroups;
  const uint32_t most = k_major ? 256 : 64;
  const auto groups = [&] { return uint64_t{ceil_div(g.n, columns * (256 / plan.slice))} * g.batches; };
  plan.slice = 32;
  while (plan.slice < most && groups() < enough) plan.slice *= 2;
  plan.grid = linear_grid(groups() * ceil_div(g.m, plan.rows));
  return GemmPlan{transposed, plan};
}

GemmPlan plan_gemv(const GemmProblem& problem) {
  const bool transposed = problem.m > 4;
  const GemmProblem g = transposed ? problem.transposed() : problem;
  GemvPlan plan;
  plan.b_k_major = g.b.row < g.b.col;
  plan.grid = linear_grid(uint64_t{ceil_div(g.n, plan.b_k_major ? 4 : 32)} * g.batches);
  return {transposed, plan};
}

void launch_gemv(const GemmCall& call, const GemvPlan& plan) {
  const GemmProblem& g = call.problem;
  launch(call.stream(), kernel::gemv(),
         {.dtype = g.in,
          .rows = g.m,
          .b_k_major = plan.b_k_major,
          .has_c = g.has_c,
          .activation = static_cast<int>(g.activation),
          .residual = g.has_residual},
         params_of<GemvParams>(call), call.args, plan.grid);
}

void launch_gemv_wide(const GemmCall& call, const GemvWidePlan& plan) {
  const GemmProblem& g = call.problem;
  launch(call.stream(), kernel::gemv_wide(),
         {.dtype = g.in,
          .rows = plan.rows,
          .b_k_major = plan.b_k_major,
          .has_c = g.has_c,
          .slice = plan.slice,
          .activation = static_cast<int>(g.activation),
          .residual = g.has_residual},
         params_of<GemvWideParams>(call), call.args, plan.grid);
}

void launch_gemv_coopmat(const GemmCall& call, const GemvCoopMatPlan& plan) {
  const GemmProblem& g = call.problem;
  launch(call.stream(), kernel::gemv_coopmat(g.in),
         {.has_c = g.has_c,
          .b_mn_major = !plan.b_k_major,
          .wide = plan.wide,
          .local = plan.local,
          .activation = static_cast<int>(g.activation),
          .residual = g.has_residual},
         params_of<GemvCoopmatParams>(call), call.args, plan.grid);
}

}  // namespace aule::ops
