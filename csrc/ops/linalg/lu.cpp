#include "ops/linalg/lu.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <bit>

#include "core/environment.h"
#include "kernels_linalg.gen.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/triangular.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

struct Factorization {
  at::Tensor pivots;  // [batch, min(m, n)], of int32
  at::Tensor info;    // [batch]
  bool pivot;
};

void factorize_panel(const at::Tensor& a, const Factorization& f, int64_t first, const LuPanelPlan& plan) {
  const int64_t m = a.size(1), n = a.size(2);
  TensorArgs args;
  LuPanelParams p{};
  p.a = args.read_write(a);
  p.pivots = args.write(f.pivots) + static_cast<uint64_t>(first * 4);
  p.info = args.read_write(f.info);
  set_matrices(p, a);
  p.pivots_batch = f.pivots.stride(0);
  p.m = static_cast<uint32_t>(m);
  p.n = static_cast<uint32_t>(n);
  p.first = static_cast<uint32_t>(first);
  const DType dtype = number_dtype("lu_factor", a);
  if (plan.rows > 0) {
    launch(current(a), kernel::lu_panel_registers(dtype),
           {.rows = plan.rows, .pivots = f.pivot, .local = static_cast<int>(plan.local)},
           std::bit_cast<LuPanelRegistersParams>(p), args, linear_grid(p.batches));
    return;
  }
  launch(current(a), kernel::lu_panel(dtype),
         {.elements = static_cast<int>(plan.in_shared ? kLuSharedBytes / a.element_size() : 1),
          .side = static_cast<int>(kLuSide),
          .pivots = f.pivot,
          .spread = plan.spread,
          .local = static_cast<int>(plan.local)},
         p, args, linear_grid(p.batches));
}

// [batch, rows] of int32 or int64: lu_permutation.comp. `first`: rows above those that the pivots count from.
void find_permutation(const at::Tensor& pivots, int64_t first, bool is_inverse, const at::Tensor& permutation) {
  check_walk("lu_unpack", caps_of(pivots), static_cast<uint64_t>(pivots.size(1)));
  TensorArgs args;
  LuPermutationParams p{};
  p.pivots = args.read(pivots);
  p.permutation = args.write(permutation);
  p.pivots_batch = pivots.stride(0);
  p.rows = static_cast<uint32_t>(permutation.size(1));
  p.count = static_cast<uint32_t>(pivots.size(1));
  p.batches = static_cast<uint32_t>(permutation.size(0));
  p.first = static_cast<uint32_t>(first);
  launch(current(pivots), kernel::lu_permutation(),
         {.dtype = dtype_of(permutation, "lu_unpack"), .is_inverse = is_inverse}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(permutation.numel()), LuPermutationParams::kLocal)));
}

// Rows of x [batch, rows, columns] change places as `pivots` say.
void permute_rows(const at::Tensor& x, const at::Tensor& pivots, int64_t first, bool is_inverse) {
  if (x.numel() == 0) return;
  const int64_t batch = x.size(0), rows = x.size(1), columns = x.size(2);
  const at::Tensor permutation = at::empty({batch, rows}, pivots.options());
  find_permutation(pivots, first, is_inverse, permutation);
  const bool along_rows = x.stride(1) <= x.stride(2);
  const at::Tensor moved =
      along_rows ? at::empty({batch, columns, rows}, x.options()).mT() : at::empty({batch, rows, columns}, x.options());
  TensorArgs args;
  LuGatherRowsParams p{};
  p.src = args.read(x);
  p.dst = args.write(moved);
  p.permutation = args.read(permutation);
  p.src_batch = x.stride(0);
  p.src_row = x.stride(1);
  p.src_col = x.stride(2);
  p.rows = static_cast<uint32_t>(rows);
  p.columns = static_cast<uint32_t>(columns);
  p.batches = static_cast<uint32_t>(batch);
  launch(current(x), kernel::lu_gather_rows(), {.dtype = raw_dtype_of(x), .along_rows = along_rows}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(x.numel()), LuGatherRowsParams::kLocal)));
  x.copy_(moved);
}

// One launch of lu_step.comp: a step [begin, begin + count) is applied to what is around it, and the next `width`
// columns are factorized. The outer block ends at `last`.
void launch_step(const at::Tensor& a, const Factorization& f, int64_t first, const LuStepsPlan& plan,
                 const at::Tensor& moves, LuStepParams p) {
  TensorArgs args;
  p.a = args.read_write(a);
  p.pivots = args.write(f.pivots) + static_cast<uint64_t>(first * 4);
  p.info = args.read_write(f.info);
  p.moves = args.read_write(moves);
  set_matrices(p, a);
  p.pivots_batch = f.pivots.stride(0);
  p.m = static_cast<uint32_t>(a.size(1));
  p.n = static_cast<uint32_t>(a.size(2));
  p.first = static_cast<uint32_t>(first);
  const uint32_t from_row = p.begin + p.count;
  const LuStepShape shape = lu_step_shape(plan, p.width > 0 ? p.m - from_row : 1);
  uint64_t workgroups = p.width > 0 ? 1 : 0;
  if (p.count > 0)
    workgroups += p.last - from_row - p.width + ceil_div(p.n - p.last + p.begin, shape.local / (2 * plan.sub));
  if (workgroups == 0) return;
  launch(current(a), kernel::lu_step(),
         {.rows = static_cast<int>(shape.rows),
          .sub = static_cast<int>(plan.sub),
          .pivots = f.pivot,
          .local = static_cast<int>(shape.local)},
         p, args, linear_grid(workgroups * p.batches));
}

// By outer blocks of columns, whose steps exchange rows of the whole matrix. Row 0 of `a` is row `first` of the whole.
void factorize_by_steps(const at::Tensor& a, const Factorization& f, int64_t first, const LuStepsPlan& plan) {
  const int64_t m = a.size(1), n = a.size(2), k = std::min(m, n);
  const at::Tensor moves = at::empty({a.size(0), 2, 2, 2 * int64_t{plan.sub}}, f.pivots.options());
  for (int64_t start = 0; start < k; start += plan.block) {
    const int64_t last = std::min(start + plan.block, k), width = last - start;
    LuStepParams p{};
    p.begin = static_cast<uint32_t>(start);
    p.last = static_cast<uint32_t>(last);
    do {
      p.width = std::min(plan.sub, p.last - p.begin - p.count);
      launch_step(a, f, first, plan, moves, p);
      p.begin += p.count;
      p.count = p.width;
      p.turn ^= 1;
    } while (p.width > 0);
    const int64_t right = n - last, below = m - last;
    if (right == 0) continue;
    const at::Tensor top = block(a, start, width, last, right);
    solve_left({block(a, start, width, start, width), false, true}, top);
    if (below == 0) continue;
    const at::Tensor rest = block(a, last, below, last, right);
    gemm("lu_factor", block(a, last, below, start, width), top, rest, 1, -1, rest);
  }
}

// By halves of the columns: products grow with the matrix. Row 0 of `a` is row `first` of the whole, whose columns to
// the left others permute.
void factorize(const at::Tensor& a, const Factorization& f, int64_t first) {
  const int64_t m = a.size(1), n = a.size(2), k = std::min(m, n);
  if (const auto steps = lu_steps_plan(profile_of(a), number_dtype("lu_factor", a), m, n, a.size(0), overrides()))
    return factorize_by_steps(a, f, first, *steps);
  const LuPanelPlan plan = lu_panel_plan(profile_of(a), number_dtype("lu_factor", a), m, n);
  if (n <= plan.columns) return factorize_panel(a, f, first, plan);
  const int64_t left = k <= plan.columns ? k : std::min(k, first_half(std::min(n, 2 * k), plan.columns));
  const int64_t right = n - left, below = m - left;
  factorize(block(a, 0, m, 0, left), f, first);
  const at::Tensor others = block(a, 0, m, left, right);
  if (f.pivot) permute_rows(others, f.pivots.narrow(1, first, left), first, false);
  const at::Tensor top = others.narrow(1, 0, left);
  solve_left({block(a, 0, left, 0, left), false, true}, top);
  if (below == 0) return;
  const at::Tensor under = block(a, left, below, 0, left), rest = others.narrow(1, left, below);
  gemm("lu_factor", under, top, rest, 1, -1, rest);
  factorize(rest, f, first + left);
  const int64_t later = std::min(below, right);
  if (f.pivot) permute_rows(under, f.pivots.narrow(1, first + left, later), first + left, false);
}

}  // namespace

void lu_factor(const at::Tensor& a, const at::Tensor& pivots, const at::Tensor& info, bool pivot) {
  info.zero_();
  if (a.numel() == 0) return;
  const at::Tensor matrices = matrices_of(as_columns(a));
  const int64_t batch = matrices.size(0), k = std::min(a.size(-1), a.size(-2));
  const Factorization f{pivots.view({batch, k}), info.view({batch}), pivot};
  if (!pivot) pivots.copy_(at::arange(1, k + 1, pivots.options()).expand(pivots.sizes()));
  factorize(matrices, f, 0);
}

void lu_solve(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b,
              at::native::TransposeType transpose) {
  if (b.numel() == 0) return;
  // Several right-hand sides may share factors.
  const int64_t n = lu.size(-1);
  const at::Tensor factors = matrices_to_read(as_columns(lu).expand(with_batch_of(b, {n, n})));
  const at::Tensor x = matrices_of(as_columns(b));
  const at::Tensor rows = pivots_for(pivots, b);
  const Triangle l{factors, false, true}, u{factors, true, false};
  using at::native::TransposeType;
  if (transpose == TransposeType::NoTranspose) {
    permute_rows(x, rows, 0, false);
    solve_left(l, x);
    solve_left(u, x);
    return;
  }
  const bool is_adjoint = transpose == TransposeType::ConjTranspose;
  solve_left(is_adjoint ? u.adjoint() : u.transposed(), x);
  solve_left(is_adjoint ? l.adjoint() : l.transposed(), x);
  permute_rows(x, rows, 0, true);
}

void unpack_pivots(at::TensorIterator& iter, int64_t pivots, int64_t rows) {
  const at::Tensor permutation = iter.output(0), given = iter.input(0);
  if (permutation.numel() == 0) return;  // the iterator counts matrices, which may have no rows
  const int64_t batch = permutation.numel() / rows;
  find_permutation(given.view({batch, pivots}), 0, false, permutation.view({batch, rows}));
}

}  // namespace aule::ops
