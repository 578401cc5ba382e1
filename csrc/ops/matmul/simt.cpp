#include "ops/matmul/simt.h"

#include <algorithm>

#include "kernels_matmul.gen.h"
#include "ops/matmul/coopmat.h"
#include "ops/matmul/params.h"

namespace aule::ops {
namespace {

// lavapipe has kernels of its own, without barriers.
bool lanes_device(const Caps& caps) { return caps.is_software_simd() && caps.subgroup_size == 8; }

bool float_problem(const GemmProblem& g) {
  return g.in == g.result && (g.in == DType::f32 || g.in == DType::f16 || g.in == DType::bf16) && g.k > 0;
}

// Chunks of 16 bytes along the side of stride `unit` and extent `length`; `ld` leads across, along `count`.
bool in_chunks(const MatrixView& v, int64_t unit, int64_t ld, uint32_t length, uint32_t count, const GemmProblem& g) {
  const int64_t e = 16 / static_cast<int64_t>(dtype_size(g.in));
  return unit == 1 && length % e == 0 && (ld % e == 0 || count == 1) && (v.batch % e == 0 || g.batches == 1) &&
         v.address % 16 == 0;
}

template <class Params>
Params scaled(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha) {
  auto p = fill<Params>(g);
  p.alpha = alpha.toFloat();
  p.beta = g.has_c ? beta.toFloat() : 0.0f;
  return p;
}

}  // namespace

bool gemm_of_few_rows(const GemmProblem& problem, const at::Scalar& beta, const at::Scalar& alpha,
                      const TensorArgs& args, const at::Tensor& out) {
  constexpr uint32_t kMost = 16;
  const Caps& caps = caps_of(out);
  if (lanes_device(caps) || !float_problem(problem) || std::min(problem.m, problem.n) > kMost) return false;
  const GemmProblem g = problem.m <= problem.n ? problem : problem.transposed();
  const auto e = static_cast<uint32_t>(16 / dtype_size(g.in));
  // The tail of k is read from a one by one, so that k need not divide.
  if (!in_chunks(g.a, g.a.col, g.a.row, e, g.m, g)) return false;
  const bool along_k = in_chunks(g.b, g.b.row, g.b.col, g.k, g.n, g),
             along_n = in_chunks(g.b, g.b.col, g.b.row, g.n, g.k, g);
  if (!along_k && !along_n) return false;
  auto& stream = current(out);
  const int has_c = g.has_c ? 1 : 0;
  // A single row has no use for matrices.
  if (g.m > 1 && has_fragments(out, g.in) && (along_k || g.k % 4 == 0)) {
    const uint32_t wide = along_k || g.m > 8 || uint64_t{g.n} * g.batches >= 8192 ? 8 : 4;
    const uint32_t threads = std::min(512u, caps.max_workgroup_invocations / 32 * 32);
    launch(stream, kernel::gemv_matrix(g.in),
           {.has_c = has_c, .b_lies = along_k ? 0 : 1, .wide = wide, .threads = threads},
           scaled<GemvMatrixParams>(g, beta, alpha), args,
           linear_grid(uint64_t{ceil_div(g.n, along_k ? 32 : wide * 8)} * g.batches));
    return true;
  }
  const uint32_t rows = g.m <= 1 ? 1 : g.m <= 2 ? 2 : g.m <= 4 ? 4 : 8, blocks = ceil_div(g.m, rows);
  const uint32_t columns = along_k ? rows <= 4 ? 4 : 2 : e;  // of a slice
  // More invocations on one column while there are too few workgroups, or lines of memory read in parts.
  constexpr uint64_t kEnough = 512;
  const uint32_t most = along_k ? 256 : 64;
  uint32_t slice = 32;
  while (slice < most &&
         uint64_t{ceil_div(g.n, columns * (256 / slice))} * g.batches < (along_k ? kEnough : kEnough / 2))
    slice *= 2;
  launch(stream, kernel::gemv_wide(),
         {.dtype = g.in, .rows = rows, .b_along_k = along_k ? 1 : 0, .has_c = has_c, .slice = slice},
         scaled<GemvWideParams>(g, beta, alpha), args,
         linear_grid(uint64_t{ceil_div(g.n, columns * (256 / slice))} * blocks * g.batches));
  return true;
}

bool gemm_in_large_tiles(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const TensorArgs& args,
                         const at::Tensor& out) {
  constexpr uint32_t kTile = 128;
  const Caps& caps = caps_of(out);
  const uint64_t groups = uint64_t{ceil_div(g.m, kTile)} * ceil_div(g.n, kTile) * g.batches;
  if (lanes_device(caps) || !float_problem(g) || std::min(g.m, g.n) < 64 || groups < 96) return false;
  const int a_along_k = g.a.col <= g.a.row ? 1 : 0, b_along_k = g.b.row < g.b.col ? 1 : 0;
  const bool f32 = g.in == DType::f32;
  const int a_vec =
      f32 && (a_along_k ? in_chunks(g.a, g.a.col, g.a.row, g.k, g.m, g) : in_chunks(g.a, g.a.row, g.a.col, g.m, g.k, g))
          ? 4
          : 1;
  const int b_vec =
      f32 && (b_along_k ? in_chunks(g.b, g.b.row, g.b.col, g.k, g.n, g) : in_chunks(g.b, g.b.col, g.b.row, g.n, g.k, g))
          ? 4
          : 1;
  const int out_vec = f32 && in_chunks(g.out, g.out.col, g.out.row, g.n, g.m, g) ? 4 : 1;
  launch(current(out), kernel::gemm_tiles(),
         {.dtype = g.in,
          .a_along_k = a_along_k,
          .b_along_k = b_along_k,
          .a_vec = a_vec,
          .b_vec = b_vec,
          .has_c = g.has_c ? 1 : 0,
          .out_vec = out_vec},
         scaled<GemmTilesParams>(g, beta, alpha), args, linear_grid(groups));
  return true;
}

}  // namespace aule::ops
