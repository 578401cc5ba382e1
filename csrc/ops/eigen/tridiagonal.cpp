#include "ops/eigen/tridiagonal.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <bit>

#include "kernels_eigen.gen.h"
#include "ops/eigen/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/qr.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "linalg_eigh";
constexpr int64_t kWidth = 32, kSlots = 64;   // WIDTH, SLOTS of tridiagonal_step.comp
constexpr int64_t kNumbers = 8, kPlaces = 3;  // fields of tridiagonal_merge.glsl
uint32_t u32(int64_t x) { return static_cast<uint32_t>(x); }

// The buffers that a matrix's steps share.
struct Steps {
  const at::Tensor& a;
  const TridiagonalPlan& plan;
  Tridiagonal result;
  at::Tensor panel, product, partials, scratch;
  uint32_t groups_before = 0;

  Steps(const at::Tensor& matrices, const TridiagonalPlan& its_plan) : a(matrices), plan(its_plan) {
    const int64_t batch = a.size(0), n = a.size(1), most = plan.groups;
    result = {empty_reals(a, {batch, n}), empty_reals(a, {batch, n - 1}), empty_matrices(a, n, n),
              at::empty({batch, n - 1}, a.options())};
    panel = empty_matrices(a, n, 3 * kWidth);
    product = at::empty({2, batch, n}, a.options());
    partials = at::empty({2, batch, most, kSlots}, a.options());
    if (plan.elems == 0) scratch = at::empty({batch, most, n}, a.options());
  }

  // Column first + step, or the last column of W alone where step is kWidth.
  void run(int64_t first, int64_t step) {
    const int64_t n = a.size(1);
    TensorArgs args;
    TridiagonalStepParams p{};
    p.a = args.read(a);
    p.panel = args.read_write(panel);
    p.product = args.read_write(product);
    p.partials = args.read_write(partials);
    p.vectors = args.write(result.vectors);
    p.tau = args.read_write(result.tau);
    p.diagonal = args.write(result.diagonal);
    p.beside = args.write(result.beside);
    if (scratch.defined()) p.scratch = args.read_write(scratch);
    p.n = u32(n);
    p.first = u32(first);
    p.step = u32(step);
    p.groups = tridiagonal_groups(plan, n - first - step);
    p.groups_before = groups_before;
    p.groups_most = plan.groups;
    p.batches = u32(a.size(0));
    groups_before = p.groups;
    launch(current(a), kernel::tridiagonal_step(number_dtype(kOp, a)),
           {.local = static_cast<int>(plan.local),
            .in_shared = plan.elems > 0,
            .elems = static_cast<int>(std::max<uint32_t>(plan.elems, 1)),
            .lanes = static_cast<int>(plan.lanes)},
           p, args, linear_grid(uint64_t{p.groups} * p.batches));
  }
};

}  // namespace

Tridiagonal tridiagonalize(const at::Tensor& a, const TridiagonalPlan& plan) {
  const int64_t n = a.size(1);
  Steps steps(a, plan);
  for (int64_t first = 0; first < n; first += kWidth) {
    for (int64_t step = 0; step < std::min(kWidth, n - first); ++step) steps.run(first, step);
    const int64_t after = first + kWidth, rest = n - after;
    if (rest <= 0) break;
    steps.run(first, kWidth);
    // a -= V W^H + W V^H
    const at::Tensor rows = steps.panel.narrow(1, after, rest), c = block(a, after, rest, after, rest);
    gemm(kOp, rows.narrow(2, 0, 2 * kWidth), rows.narrow(2, kWidth, 2 * kWidth).mH(), c, 1, -1, c);
  }
  return steps.result;
}

namespace {

// The buffers that merges share. Their kernels have the same parameters.
struct Merges {
  const at::Tensor& beside;
  const TridiagonalPlan& plan;
  DType dtype;
  int64_t batch;
  at::Tensor numbers, places, counts, rhos;

  Merges(const Tridiagonal& t, const TridiagonalPlan& its_plan)
      : beside(t.beside), plan(its_plan), dtype(number_dtype(kOp, t.diagonal)), batch(t.diagonal.size(0)) {
    const int64_t n = plan.padded(), merges = batch * n / (2 * plan.leaf);
    const at::TensorOptions reals = t.diagonal.options(), integers = reals.dtype(at::kInt);
    numbers = at::empty({kNumbers, batch, n}, reals);
    places = at::empty({kPlaces, batch, n}, integers);
    counts = at::empty({merges, 2}, integers);
    rhos = at::empty({merges}, reals);
  }

  template <class Kernel, class Params>
  void for_each(const Kernel& kernel, Params p, const TensorArgs& args) const {
    launch(current(beside), kernel, {}, p, args, linear_grid(ceil_div(uint64_t{p.total}, Params::kLocal)));
  }

  // Eigenpairs of blocks of `size` rows, [blocks, size, size], from those of their halves.
  Eigenpairs join(const Eigenpairs& halves, int64_t size) const {
    const int64_t n = plan.padded(), merges = batch * n / size, half = size / 2;
    const Eigenpairs whole{at::empty_like(halves.values), empty_blocks(merges, size)};
    const at::Tensor inner = at::empty({merges, size, size}, beside.options());
    TensorArgs args;
    TridiagonalDeflateParams p{};
    p.values = args.read(halves.values);
    p.vectors = args.read(halves.vectors);
    p.joined = args.read_write(whole.values);
    p.inner = args.read_write(inner);
    p.beside = args.read(beside);
    p.numbers = args.read_write(numbers);
    p.places = args.read_write(places);
    p.counts = args.read_write(counts);
    p.rhos = args.read_write(rhos);
    p.n = u32(n);
    p.real = u32(beside.size(1) + 1);
    p.size = u32(size);
    p.total = u32(batch * n);
    const uint32_t elems = deflate_elems(plan, dtype, size);
    launch(current(beside), kernel::tridiagonal_deflate(dtype),
           {.local = static_cast<int>(plan.deflate_local),
            .in_shared = elems > 0,
            .elems = static_cast<int>(std::max<uint32_t>(elems, 1))},
           p, args, linear_grid(static_cast<uint64_t>(merges)));
    const uint32_t halvings = tridiagonal_halvings(dtype);
    for (p.turn = 0; p.turn < halvings; p.turn += p.turns) {
      p.turns = std::min(plan.halvings, halvings - p.turn);
      for_each(kernel::tridiagonal_roots(dtype), std::bit_cast<TridiagonalRootsParams>(p), args);
    }
    for_each(kernel::tridiagonal_weights(dtype), std::bit_cast<TridiagonalWeightsParams>(p), args);
    for_each(kernel::tridiagonal_vectors(dtype), std::bit_cast<TridiagonalVectorsParams>(p), args);
    for (int64_t i = 0; i < 2; ++i) {
      const at::Tensor q = halves.vectors.mT().view({merges, 2, half, half}).select(1, i).mT();
      gemm(kOp, q, inner.narrow(1, i * half, half), {}, 0, 1, whole.vectors.narrow(1, i * half, half));
    }
    return whole;
  }

  at::Tensor empty_blocks(int64_t count, int64_t size) const {
    return at::empty({count, size, size}, beside.options()).mT();
  }
};

Eigenpairs of_leaves(const Tridiagonal& t, const Merges& merges) {
  const TridiagonalPlan& plan = merges.plan;
  const int64_t blocks = int64_t{1} << plan.levels;
  const Eigenpairs leaves{at::empty({merges.batch, plan.padded()}, t.diagonal.options()),
                          merges.empty_blocks(merges.batch * blocks, plan.leaf)};
  TensorArgs args;
  TridiagonalLeafParams p{};
  p.diagonal = args.read(t.diagonal);
  p.beside = args.read(t.beside);
  p.values = args.write(leaves.values);
  p.vectors = args.write(leaves.vectors);
  p.n = u32(t.diagonal.size(1));
  p.size = u32(plan.leaf);
  p.blocks = u32(blocks);
  p.batches = u32(merges.batch);
  launch(current(t.diagonal), kernel::tridiagonal_leaf(merges.dtype), {}, p, args,
         linear_grid(static_cast<uint64_t>(merges.batch * blocks)));
  return leaves;
}

}  // namespace

Eigenpairs eigenpairs(const Tridiagonal& t, const TridiagonalPlan& plan) {
  const int64_t batch = t.diagonal.size(0), n = t.diagonal.size(1), padded = plan.padded();
  const Merges merges(t, plan);
  Eigenpairs pairs = of_leaves(t, merges);
  for (int64_t size = 2 * plan.leaf; size <= padded; size *= 2) pairs = merges.join(pairs, size);
  if (padded == n) return pairs;
  // The values of rows past the matrix are the largest.
  const Eigenpairs sorted{at::empty_like(pairs.values), merges.empty_blocks(batch, padded)};
  sort_columns(pairs.values, at::ones({batch}, t.diagonal.options()), pairs.vectors, sorted.values, sorted.vectors,
               false);
  return {sorted.values.narrow(1, 0, n), block(sorted.vectors, 0, n, 0, n)};
}

at::Tensor transformed_back(const Tridiagonal& t, const at::Tensor& z) {
  const int64_t n = t.vectors.size(1);
  const at::Tensor v = empty_matrices(t.vectors, n, n);
  v.copy_(z);
  if (n > 1) ormqr(block(t.vectors, 1, n - 1, 0, n - 1), t.tau, v.narrow(1, 1, n - 1), true, false);
  return v;
}

}  // namespace aule::ops
