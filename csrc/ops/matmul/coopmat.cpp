#include "ops/matmul/coopmat.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels_matmul.gen.h"
#include "ops/coopmat/layout.h"
#include "ops/matmul/params.h"

namespace aule::ops {
namespace {

// Rows and columns of out per workgroup and per subgroup, the step along k, and the microseconds that one core of an
// H200 takes for 64 k of such a tile. There it does not matter how many workgroups share a core: they do not overlap.
struct Tile {
  int bm, bn, wm, wn, bk;
  double cost;
};
constexpr std::array<Tile, 8> kTiles = {{
    {128, 256, 64, 64, 64, 1.80},
    {256, 128, 64, 64, 64, 1.80},
    {128, 128, 64, 64, 32, 1.00},
    {128, 64, 64, 32, 64, 0.60},
    {64, 64, 32, 32, 64, 0.37},
    {64, 64, 32, 64, 64, 0.60},    // subgroups of 64
    {32, 32, 16, 16, 32, 0.30},    // subgroups of 8
    {128, 256, 64, 64, 48, 1.75},  // both operands lie across
}};
constexpr uint64_t kCores = 128;  // Vulkan does not tell how many a device has

// gemm_matrix.comp's specialization constants, which it explains.
struct MatrixPlan {
  int fragments = 0;  // axis FRAGMENTS
  int mat_m = 0, mat_n = 0, threads = 0, bm = 0, bn = 0, wm = 0, wn = 0, bk = 0;
  int a_lies = 0, b_lies = 0, a_vec = 0, b_vec = 0, c_vec = 0, out_vec = 0;
  int checked = 0, line = 0, addresses = 0, pairs = 0;
  uint32_t splits = 1;  // over 1: float32 partial sums of k, added by gemm_splits.comp
  Grid grid;
};

struct Operand {
  int lies = 0;  // 0: along k, 1: along the other side
  int vec = 0;   // elements of one load; 0: the kernel cannot read it
};

// `row` and `k` are the strides along m or n and along k.
Operand classify(const MatrixView& v, int64_t row, int64_t k, uint32_t rows, uint32_t depth, uint32_t batches) {
  Operand o;
  o.lies = k == 1 ? 0 : row == 1 ? 1 : depth == 1 ? 0 : 1;
  const int64_t unit = o.lies == 0 ? k : row, ld = o.lies == 0 ? row : k;
  const uint32_t extent = o.lies == 0 ? depth : rows, across = o.lies == 0 ? rows : depth;
  if ((unit != 1 && extent != 1) || ld < 0) return o;
  for (int vec : {8, 4, 2, 1}) {
    const bool aligned = extent % vec == 0 && (ld % vec == 0 || across == 1) && (v.batch % vec == 0 || batches == 1) &&
                         v.address % (2 * static_cast<uint64_t>(vec)) == 0;
    if (!aligned) continue;
    if (ld < (1 << 22)) o.vec = vec;  // offsets inside a tile have 32 bits
    break;
  }
  return o;
}

// 16-byte chunks along n.
bool in_chunks(const MatrixView& v, const GemmProblem& g) {
  return v.col == 1 && g.n % 8 == 0 && (v.row % 8 == 0 || g.m == 1) && (v.batch % 8 == 0 || g.batches == 1) &&
         v.address % 16 == 0;
}

// Where both operands lie across, matrices come straight from padded tiles, of which 48 k fit: nothing is transposed.
bool is_padded(const Tile& t) { return t.bk == 48; }

bool fits(const Tile& t, const MatrixPlan& x, const Caps& caps, const MatrixLayout& layout) {
  if (is_padded(t) && (x.fragments == 0 || x.a_lies == 0 || x.b_lies == 0)) return false;
  const bool padded = x.fragments == 0 || is_padded(t);
  const int subgroups = (t.bm / t.wm) * (t.bn / t.wn), threads = subgroups * layout.subgroup;
  if (static_cast<uint32_t>(threads) > caps.max_workgroup_invocations || t.wn % (2 * layout.n) != 0) return false;
  for (auto [rows, lies] : {std::pair{t.bm, x.a_lies}, std::pair{t.bn, x.b_lies}}) {
    const int chunks = rows * t.bk / 8;
    if (chunks % threads != 0 || threads > rows * 4) return false;
    if (lies == 1 && !padded && (chunks / threads % 4 != 0 || threads % (rows / 2) != 0)) return false;
    if (lies == 1 && padded && threads % (rows / 8) != 0) return false;
  }
  // A layout that is not known gets the tiles that need few registers and little code.
  if (x.fragments == 0 && (subgroups > 4 || t.bm * t.bk / 8 > 8 * threads)) return false;
  const auto kernel = kernel::gemm_matrix(DType::f16, is_padded(t) ? 2 : x.fragments);
  return shared_bytes(kernel, {.mat_m = layout.m,
                               .mat_n = layout.n,
                               .threads = threads,
                               .bm = t.bm,
                               .bn = t.bn,
                               .wm = t.wm,
                               .wn = t.wn,
                               .bk = t.bk,
                               .a_lies = x.a_lies,
                               .b_lies = x.b_lies}) <= caps.max_shared_bytes;
}

// The layout that gemm_matrix.comp's fragments are written for.
bool has_fragments(const MatrixLayout& l) {
  return l.known && l.b_is_a_transposed && l.m == 16 && l.n == 16 && l.subgroup == 32 && l.elements == 8 &&
         l.lane_div == 4 && l.lane_row == 1 && l.lane_col == 2 && l.rows == 0x88880000u && l.cols == 0x98109810u &&
         l.a_elem == 0x76543210u;
}

bool plan_matrix(const GemmProblem& g, const Caps& caps, const MatrixLayout& layout, MatrixPlan& x) {
  const Operand a = classify(g.a, g.a.row, g.a.col, g.m, g.k, g.batches),
                b = classify(g.b, g.b.col, g.b.row, g.n, g.k, g.batches);
  if (a.vec == 0 || b.vec == 0) return false;
  x.a_lies = a.lies;
  x.b_lies = b.lies;
  x.a_vec = a.vec;
  x.b_vec = b.vec;
  x.c_vec = !g.has_c ? 0 : in_chunks(g.c, g) ? 8 : 1;
  x.out_vec = in_chunks(g.out, g) ? 8 : 1;
  x.fragments = has_fragments(layout) ? 1 : 0;
  x.mat_m = layout.m;
  x.mat_n = layout.n;

  const Tile* best = nullptr;
  double best_time = 0;
  for (const Tile& t : kTiles) {
    if (!fits(t, x, caps, layout)) continue;
    // What lies along m or n is transposed on the way in, which wants the narrower side.
    if (t.bm > t.bn && x.a_lies == 1 && x.b_lies == 0) continue;
    if (t.bn > t.bm && x.b_lies == 1 && x.a_lies == 0) continue;
    const uint64_t groups = uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) * g.batches;
    const uint32_t steps = ceil_div(g.k, t.bk), most = groups < kCores ? std::min(64u, ceil_div(steps, 4)) : 1;
    for (uint32_t wanted = 1; wanted <= most; ++wanted) {
      const uint32_t each = ceil_div(steps, wanted), splits = ceil_div(steps, each);  // none is empty
      double time = static_cast<double>(ceil_div(groups * splits, kCores)) * each * t.bk / 64 * t.cost;
      // The second kernel, and its memory traffic.
      if (splits > 1) time += 3 + 3e-6 * static_cast<double>(splits) * g.m * g.n * g.batches;
      if (best != nullptr && time >= best_time) continue;
      best = &t;
      best_time = time;
      x.splits = splits;
    }
  }
  if (best == nullptr) return false;
  if (is_padded(*best)) x.fragments = 2;
  x.bm = best->bm;
  x.bn = best->bn;
  x.wm = best->wm;
  x.wn = best->wn;
  x.bk = best->bk;
  // What k leaves over the steps is multiplied first, so that only one load is checked; it cannot stand alone, for the
  // last step is loaded again.
  const uint32_t steps = ceil_div(g.k, x.bk), per_split = ceil_div(steps, x.splits);
  const bool alone = steps - (x.splits - 1) * per_split == 1;
  x.checked = (g.k % x.bk == 0 ? 0 : alone ? 1 : 4) | (g.m % x.bm != 0 || g.n % x.bn != 0 ? 2 : 0);
  // The large tiles have no registers to spare: the cheapest addresses where nothing is checked. Otherwise whole lines
  // are too much where both operands lie along k.
  const bool large = x.bm * x.bn > 128 * 128, nt = x.a_lies == 0 && x.b_lies == 0;
  if (large && x.fragments == 1 && (x.checked & 2) == 0 && x.a_vec == 8 && x.b_vec == 8 && (!x.a_lies || !x.b_lies)) {
    x.addresses = nt ? 1 : 2;
    x.pairs = nt ? 1 : 0;
  }
  x.line = x.bk != 64 || (large && nt && x.addresses == 0) ? 4 : 8;
  x.threads = (x.bm / x.wm) * (x.bn / x.wn) * layout.subgroup;
  const uint64_t groups = uint64_t{ceil_div(g.m, x.bm)} * ceil_div(g.n, x.bn) * g.batches;
  x.grid = linear_grid(groups * x.splits);
  return true;
}

}  // namespace

bool has_fragments(const at::Tensor& t, DType dtype) {
  if ((dtype != DType::f16 && dtype != DType::bf16) || !caps_of(t).cooperative_matrix) return false;
  return has_fragments(matrix_layout(static_cast<int>(t.get_device()), dtype));
}

bool gemm_on_matrices(const GemmProblem& problem, const at::Scalar& beta, const at::Scalar& alpha,
                      const TensorArgs& args, const at::Tensor& out) {
  const Caps& caps = caps_of(out);
  if ((problem.in != problem.result && problem.result != DType::f32) ||
      (problem.in != DType::f16 && problem.in != DType::bf16))
    return false;
  if (!caps.cooperative_matrix || problem.k == 0 || std::min(problem.m, problem.n) <= 4) return false;
  if (caps.is_software_simd()) return false;  // gemm_lanes.comp has no barrier
  const MatrixLayout& layout = matrix_layout(static_cast<int>(out.get_device()), problem.in);
  // Rows of the result should be contiguous.
  const GemmProblem g = problem.out.col != 1 && problem.out.row == 1 ? problem.transposed() : problem;
  MatrixPlan x;
  if (!layout.usable || !plan_matrix(g, caps, layout, x)) return false;

  auto& stream = current(out);
  auto p = fill<GemmMatrixParams>(g);
  p.alpha = alpha.toFloat();
  p.beta = g.has_c ? beta.toFloat() : 0.0f;
  p.splits = x.splits;
  constexpr int kBand = 8;
  const auto kernel = kernel::gemm_matrix(g.in, x.fragments);
  const auto spec = [&](int c_vec, int out_vec) {
    return GemmMatrixSpec{.mat_m = x.mat_m,
                          .mat_n = x.mat_n,
                          .threads = x.threads,
                          .bm = x.bm,
                          .bn = x.bn,
                          .wm = x.wm,
                          .wn = x.wn,
                          .bk = x.bk,
                          .a_lies = x.a_lies,
                          .b_lies = x.b_lies,
                          .a_vec = x.a_vec,
                          .b_vec = x.b_vec,
                          .c_vec = c_vec,
                          .out_vec = out_vec,
                          .group = kBand,
                          .checked = x.checked,
                          .line = x.line,
                          .addresses = x.addresses,
                          .pairs = x.pairs};
  };
  if (x.splits == 1 && g.result == g.in) {
    launch(stream, kernel, spec(x.c_vec, x.out_vec), p, args, x.grid);
    return true;
  }
  // A float32 result is the partial sums of one part, which lie as it does or pass through the second kernel.
  const bool dense = g.out.col == 1 && (g.out.row == g.n || g.m == 1) &&
                     (g.out.batch == int64_t{g.m} * g.n || g.batches == 1) && g.out.address % 8 == 0;
  if (x.splits == 1 && !g.has_c && p.alpha == 1.0f && dense) {
    launch(stream, kernel, spec(0, 0), p, args, x.grid);
    return true;
  }
  const at::Tensor partial = at::empty({x.splits, g.batches, g.m, g.n}, out.options().dtype(at::kFloat));
  auto sum = fill<GemmSplitsParams>(g);
  sum.alpha = p.alpha;
  sum.beta = p.beta;
  sum.splits = x.splits;
  TensorArgs first = args, second = args;
  p.out_ = first.write(partial);
  sum.a = second.read(partial);
  launch(stream, kernel, spec(0, 0), p, first, x.grid);
  launch(stream, kernel::gemm_splits(), {.dtype = g.result, .has_c = g.has_c ? 1 : 0}, sum, second,
         linear_grid(ceil_div(uint64_t{g.batches} * g.m * ceil_div(g.n, 4), 256)));
  return true;
}

}  // namespace aule::ops
