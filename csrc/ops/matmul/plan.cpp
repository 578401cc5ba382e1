#include "ops/matmul/plan.h"

#include <utility>

namespace aule::ops {
namespace {

// Two elements along `along` are adjacent and their pair is aligned wherever the other strides lead.
bool pairs(const MatrixView& v, int64_t along, int64_t across, uint32_t extent, uint64_t pair_bytes) {
  return along == 1 && extent % 2 == 0 && across % 2 == 0 && v.batch % 2 == 0 && v.address % pair_bytes == 0;
}

// gemm_chunks.comp is three times faster than gemm_lanes.comp (two where b lies along k), but it is one more pipeline
// to compile, and wants whole tiles and 32-bit strides.
bool plan_chunks(GemmPlan& plan, const GemmProblem& whole) {
  GemmProblem g = whole;
  if (plan.swap) g = whole.transposed();
  constexpr uint32_t kCols = 16, kMaxTiles = 4096;  // per grid axis: 4 digits of as_uniform()
  if (g.in != DType::f32 || g.n < kCols || g.k < 64) return false;
  for (const MatrixView* v : {&g.a, &g.b, &g.c, &g.out})
    if (v->batch > UINT32_MAX || v->row > UINT32_MAX || v->col > UINT32_MAX) return false;
  const uint32_t rows = g.m > 4 * kMaxTiles ? 8 : g.m > 2 ? 4 : g.m;
  if (ceil_div(g.m, rows) > kMaxTiles || g.n / kCols > kMaxTiles || g.batches > kMaxTiles) return false;
  const uint32_t step = rows == 8 || g.k < 128 || g.k % 128 == 64 ? 64 : 128;  // code of about 16 KiB
  // Worth compiling a pipeline for, or two when something is left for gemm_lanes.comp.
  const bool whole_tiles = g.n % kCols == 0 && g.k % step == 0;
  if (uint64_t{g.m} * g.n * g.k * g.batches < (uint64_t{1} << (whole_tiles ? 18 : 21))) return false;
  plan.kernel = GemmPlan::Kernel::chunks;
  plan.n_rest = g.n % kCols;
  const auto pairs_along_n = [&](const MatrixView& v) { return pairs(v, v.col, v.row, g.n - plan.n_rest, 8); };
  plan.a_pair = g.a.col == 1 ? 1 : g.a.row == 1 && g.m % rows == 0 ? 2 : 0;
  plan.b_pair = pairs_along_n(g.b) ? 2 : g.b.row == 1 ? 1 : 0;
  plan.out_pair = pairs_along_n(g.out) && (!g.has_c || pairs_along_n(g.c)) ? 1 : 0;
  plan.step = step;
  plan.k_rest = g.k % step;
  plan.rows = rows;
  plan.cols = kCols;
  plan.grid = Grid{g.n / kCols, ceil_div(g.m, rows), g.batches};
  return true;
}

}  // namespace

GemmPlan gemm_plan(const GemmProblem& g, const Caps& caps) {
  GemmPlan plan;
  if (g.in == DType::f64 || !is_floating(g.in)) {
    plan.kernel = GemmPlan::Kernel::scalar;
    plan.rows = 4;
    plan.cols = 32;
  } else if (caps.is_software_simd() && caps.subgroup_size == 8) {
    plan.kernel = GemmPlan::Kernel::lanes;
    MatrixView a = g.a, b = g.b;
    uint32_t m = g.m, n = g.n;
    // Lanes lie along n: a narrow result is computed transposed.
    if (n < 8 && m > n) {
      plan.swap = true;
      std::swap(m, n);
      a = g.b.transposed();
      b = g.a.transposed();
    }
    if (plan_chunks(plan, g)) return plan;
    plan.rows = m <= 1 ? 1 : m <= 4 ? 4 : m <= 8 ? 8 : m <= 16 ? 16 : 32;
    // Larger tiles load less and take longer to compile: 32 x 64 pays where there is much to do.
    const uint32_t per_lane = n <= 8 ? 1 : n <= 16 ? 2 : m >= 128 && n >= 256 && g.k >= 64 ? 8 : 4;
    const uint64_t pair_bytes = 2 * dtype_size(g.in);
    plan.a_pair = pairs(a, a.col, a.row, g.k, pair_bytes) ? 1 : 0;
    if (pairs(b, b.row, b.col, g.k, pair_bytes))
      plan.b_pair = 1;
    else if (per_lane > 1 && pairs(b, b.col, b.row, n, pair_bytes))
      plan.b_pair = 2;
    plan.cols = 8 * per_lane;
  } else if (g.m <= 4 || g.n <= 4) {
    plan.kernel = GemmPlan::Kernel::vector;
    plan.swap = g.m > 4;
    plan.rows = 4;
    const MatrixView b = plan.swap ? g.a.transposed() : g.b;
    plan.b_pair = b.row < b.col ? 1 : 0;
    plan.cols = plan.b_pair ? 4 : 32;
  }
  const uint32_t m = plan.swap ? g.n : g.m, n = plan.swap ? g.m : g.n;
  plan.grid = linear_grid(uint64_t{ceil_div(m, plan.rows)} * ceil_div(n, plan.cols) * g.batches);
  return plan;
}

}  // namespace aule::ops
