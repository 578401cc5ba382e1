#include "ops/quantized/plan.h"

#include <algorithm>
#include <bit>

#include "kernels_quantized.gen.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/plan_text.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {

namespace {
// Decoding a column's 64 weights takes about 5 instructions for each, on an H200 of 132 x 4 schedulers.
constexpr double kDecodeUsPerColumn = 0.0015;
}  // namespace

QuantizedGemvPlan quantized_gemv_plan(const DeviceProfile& profile, const QuantizedGemvProblem& g) {
  QuantizedGemvPlan plan;
  const bool by_expert = g.pairs > 0;
  plan.rows = by_expert || g.m <= 1 ? 1 : g.m <= 2 ? 2 : g.m <= 4 ? 4 : 8;
  const uint64_t tiles_m = by_expert ? g.pairs : (g.m + plan.rows - 1) / plan.rows;
  const auto groups = [&] {
    const uint64_t per_group = plan.local / plan.slice * plan.columns / (g.gated ? 2 : 1);
    return (g.n + per_group - 1) / per_group * tiles_m;
  };
  if (profile.software_simd()) {
    plan.local = 64;
    plan.slice = 8;
    plan.columns = plan.rows == 1 && !g.gated ? 1 : 2;  // for which an octet of x is loaded once
  } else {
    plan.local = std::min(128u, profile.max_workgroup_invocations / 32 * 32);
    plan.columns = plan.rows <= 2 ? 2 : 4;  // that share what is done to a row of x
    plan.dot = g.integers && profile.int_dot_product &&
               shared_bytes(kernel::gemv_quantized(1), {.rows = plan.rows, .columns = 4, .local = plan.local}) <=
                   profile.shared_bytes;
    if (plan.dot) plan.columns = 4;  // that share the integers of x
    plan.slice = std::clamp<uint32_t>(std::bit_floor(static_cast<uint32_t>(std::min<uint64_t>(g.spans, 32))), 8, 32);
    // More invocations on one column while there are too few workgroups, and spans for all of them.
    const uint64_t enough = uint64_t{profile.multiprocessors} * (plan.dot ? 2 : 8);
    while (plan.slice < plan.local && groups() < enough && uint64_t{plan.slice} * 2 <= g.spans) plan.slice *= 2;
  }
  plan.grid = linear_grid(groups());
  return plan;
}

std::optional<QuantizedGemmPlan> quantized_gemm_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                                     const GemmProblem& problem, const QuantizedFormat& format) {
  if (profile.max_push_constant_bytes < sizeof(GemmQuantizedParams)) return std::nullopt;
  // A step takes whole runs of octets from spans that interleave.
  const uint32_t step = format.run * format.lanes * 8;
  const auto plan = plan_coopmat(profile, units, problem, {.step = step, .us_per_column = kDecodeUsPerColumn});
  if (!plan || plan->transposed) return std::nullopt;
  QuantizedGemmPlan x{.product = std::get<CoopMatPlan>(plan->kernel)};
  const CoopMatPlan& product = x.product;
  constexpr uint32_t kMostTilesOfRows = 4;
  if (ceil_div(problem.m, product.tile.bm) > kMostTilesOfRows) return std::nullopt;
  // Their table is in the lanes, and reading it took large tiles 200 us more.
  if (format.has_levels && product.tile.bm * product.tile.bn > 64 * 64) return std::nullopt;
  const uint32_t interleaved = format.span * format.lanes, octets = product.tile.bk / 8;
  x.parts = interleaved > octets ? interleaved / octets : 1;
  const uint32_t of_invocation = product.tile.bn * octets / static_cast<uint32_t>(product.local);
  if (of_invocation % (format.span / x.parts) != 0 || product.fragments == CoopMatPlan::Fragments::padded)
    return std::nullopt;
  const auto kernel = kernel::gemm_quantized(problem.in, static_cast<int>(product.fragments));
  if (shared_bytes(kernel, tile_spec<GemmQuantizedSpec>(product)) > profile.shared_bytes) return std::nullopt;
  return x;
}

std::string text_of(const QuantizedGemmPlan& plan) {
  return text_of(GemmPlan{.kernel = plan.product}) + " parts " + std::to_string(plan.parts);
}

std::string text_of(const QuantizedGemvPlan& plan) {
  return std::string(plan.dot ? "dot " : "") + "rows " + std::to_string(plan.rows) + " columns " +
         std::to_string(plan.columns) + " slice " + std::to_string(plan.slice) + " local " +
         std::to_string(plan.local) + " " + grid_text(plan.grid);
}

}  // namespace aule::ops
