#include "ops/matmul/kernels/simd.h"

#include <utility>

#include "kernels_matmul.gen.h"
#include "ops/matmul/launch.h"

namespace aule::ops {
namespace {

// Two elements along `along` are adjacent and their pair is aligned wherever the other strides lead.
bool pairs(const MatrixView& v, int64_t along, int64_t across, uint32_t extent, uint64_t pair_bytes) {
  return along == 1 && extent % 2 == 0 && across % 2 == 0 && v.batch % 2 == 0 && v.address % pair_bytes == 0;
}

// gemm_simd_unrolled.comp is three times faster than gemm_simd.comp (two if b is k-major), but it is one more
// pipeline to compile, and wants whole tiles and 32-bit strides.
std::optional<SimdUnrolledPlan> plan_unrolled(const GemmProblem& g) {
  constexpr uint32_t kCols = 16, kMaxTiles = 4096;  // per grid axis: 4 digits of as_uniform()
  if (g.in != DType::f32 || g.n < kCols || g.k < 64) return std::nullopt;
  for (const MatrixView* v : {&g.a, &g.b, &g.c, &g.out})
    if (v->batch > UINT32_MAX || v->row > UINT32_MAX || v->col > UINT32_MAX) return std::nullopt;
  SimdUnrolledPlan plan;
  plan.rows = g.m > 4 * kMaxTiles ? 8 : g.m > 2 ? 4 : g.m;
  if (ceil_div(g.m, plan.rows) > kMaxTiles || g.n / kCols > kMaxTiles || g.batches > kMaxTiles) return std::nullopt;
  plan.step = plan.rows == 8 || g.k < 128 || g.k % 128 == 64 ? 64 : 128;  // code of about 16 KiB
  plan.n_rest = g.n % kCols;
  plan.k_rest = g.k % plan.step;
  // Worth compiling a pipeline for, or two when something is left for gemm_simd.comp.
  const bool whole_tiles = plan.n_rest == 0 && plan.k_rest == 0;
  if (uint64_t{g.m} * g.n * g.k * g.batches < (uint64_t{1} << (whole_tiles ? 18 : 21))) return std::nullopt;
  const auto pairs_along_n = [&](const MatrixView& v) { return pairs(v, v.col, v.row, g.n - plan.n_rest, 8); };
  plan.a_unit = g.a.col == 1 ? 1 : g.a.row == 1 && g.m % plan.rows == 0 ? 2 : 0;
  plan.b_unit = pairs_along_n(g.b) ? 2 : g.b.row == 1 ? 1 : 0;
  plan.out_pair = pairs_along_n(g.out) && (!g.has_c || pairs_along_n(g.c));
  plan.grid = Grid{g.n / kCols, ceil_div(g.m, plan.rows), g.batches};
  return plan;
}

void advance(MatrixView& v, int64_t rows, int64_t cols, DType type) {
  v.address += static_cast<uint64_t>(rows * v.row + cols * v.col) * dtype_size(type);
}

}  // namespace

GemmPlan plan_simd(const GemmProblem& problem) {
  // Lanes lie along n: a narrow result is computed transposed.
  const bool transposed = problem.n < 8 && problem.m > problem.n;
  const GemmProblem g = transposed ? problem.transposed() : problem;
  if (const auto unrolled = plan_unrolled(g)) return {transposed, *unrolled};
  SimdPlan plan;
  plan.rows = g.m <= 1 ? 1 : g.m <= 4 ? 4 : g.m <= 8 ? 8 : g.m <= 16 ? 16 : 32;
  // Larger tiles load less and take longer to compile: 32 x 64 pays where there is much to do.
  plan.columns = g.n <= 8 ? 1 : g.n <= 16 ? 2 : g.m >= 128 && g.n >= 256 && g.k >= 64 ? 8 : 4;
  const uint64_t pair_bytes = 2 * dtype_size(g.in);
  plan.a_pair = pairs(g.a, g.a.col, g.a.row, g.k, pair_bytes) ? 1 : 0;
  if (pairs(g.b, g.b.row, g.b.col, g.k, pair_bytes))
    plan.b_pair = 1;
  else if (plan.columns > 1 && pairs(g.b, g.b.col, g.b.row, g.n, pair_bytes))
    plan.b_pair = 2;
  plan.grid = linear_grid(uint64_t{ceil_div(g.m, plan.rows)} * ceil_div(g.n, 8 * plan.columns) * g.batches);
  return {transposed, plan};
}

void launch_simd(const GemmCall& call, const SimdPlan& plan) {
  launch(call.stream(), kernel::gemm_simd(),
         {.dtype = call.problem.in,
          .r = plan.rows,
          .c = plan.columns,
          .a_pair = plan.a_pair,
          .b_pair = plan.b_pair,
          .has_c = call.problem.has_c},
         params_of<GemmSimdParams>(call), call.args, plan.grid);
}

void launch_simd_unrolled(const GemmCall& call, const SimdUnrolledPlan& plan) {
  GemmProblem g = call.problem;
  g.n -= plan.n_rest;
  if (plan.n_rest != 0) {
    GemmProblem rest = g;
    rest.n = plan.n_rest;
    for (MatrixView* v : {&rest.b, &rest.c, &rest.out}) advance(*v, 0, g.n, g.in);
    multiply(call.with(rest));
  }
  if (plan.k_rest != 0) {
    GemmProblem rest = g;
    rest.k = plan.k_rest;
    multiply(call.with(rest));
    advance(g.a, 0, plan.k_rest, g.in);
    advance(g.b, plan.k_rest, 0, g.in);
  }
  auto p = params_of<GemmSimdUnrolledParams>(call.with(g));
  for (uint32_t i = 0; i < 8; ++i) p.digits[i] = i;
  bool started = plan.k_rest != 0;
  for (uint32_t k = plan.k_rest; k < g.k; k += plan.step) {
    if (started || !g.has_c) {
      p.c = p.out_;
      p.c_batch = p.out_batch;
      p.c_m = p.out_m;
      p.c_n = p.out_n;
      p.beta = started ? 1.0f : 0.0f;
    }
    launch(call.stream(), kernel::gemm_simd_unrolled(),
           {.r = plan.rows,
            .step = plan.step,
            .a_unit = plan.a_unit,
            .b_unit = plan.b_unit,
            .out_pair = plan.out_pair,
            .batched = g.batches > 1},
           p, call.args, plan.grid);
    started = true;
    p.a += uint64_t{plan.step} * p.a_k * dtype_size(g.in);
    p.b += uint64_t{plan.step} * p.b_k * dtype_size(g.in);
  }
}

}  // namespace aule::ops
