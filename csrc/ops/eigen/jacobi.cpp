#include "ops/eigen/jacobi.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_eigen.gen.h"
#include "ops/eigen/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

DType dtype_of_columns(const at::Tensor& t) { return real_or_complex_dtype_of(t.scalar_type(), "jacobi"); }
uint32_t u32(int64_t x) { return static_cast<uint32_t>(x); }

}  // namespace

at::Tensor empty_matrices(const at::Tensor& like, int64_t rows, int64_t columns) {
  return at::empty({like.size(0), columns, rows}, like.options()).mT();
}
at::Tensor empty_reals(const at::Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(c10::toRealValueType(like.scalar_type())));
}

namespace {

JacobiStart start(const at::Tensor& a, int64_t n, bool is_hermitian, bool upper, bool shifted) {
  constexpr int64_t kLeastElems = 16, kMostGroups = 128;  // of an invocation, of a matrix
  JacobiStart s{empty_matrices(a, n, n), is_hermitian ? empty_matrices(a, n, n) : at::Tensor(),
                empty_reals(a, {a.size(0)})};
  const int local = n <= 16 ? 32 : n <= 256 ? 64 : 256;
  const int64_t groups = shifted ? 1 : std::clamp<int64_t>(n * n / (local * kLeastElems), 1, kMostGroups);
  const at::Tensor largest = groups == 1 ? at::Tensor() : empty_reals(a, {a.size(0), groups});
  const auto step = [&](int which) {
    TensorArgs args;
    JacobiStartParams p{};
    p.a = args.read(a);
    if (which != 1) {
      p.w = args.write(s.w);
      if (is_hermitian) p.h = args.write(s.h);
      p.scale = args.write(s.scale);
    }
    if (which == 1) p.largest = args.write(largest);
    if (which == 2) p.largest = args.read(largest);
    p.a_batch = a.stride(0);
    p.a_column = u32(a.stride(2));
    p.n = u32(n);
    p.groups = u32(groups);
    launch(current(a), kernel::jacobi_start(dtype_of_columns(a)),
           {.local = local, .hermitian = is_hermitian, .upper = upper, .shifted = shifted, .step = which}, p, args,
           linear_grid(static_cast<uint64_t>(a.size(0) * groups)));
  };
  if (groups == 1) {
    step(0);
  } else {
    step(1);
    step(2);
  }
  return s;
}

}  // namespace

JacobiStart start_from_triangle(const at::Tensor& r) { return start(r, r.size(2), false, false, false); }
JacobiStart start_from_hermitian(const at::Tensor& a, bool upper, bool shifted) {
  return start(a, a.size(2), true, upper, shifted);
}

void orthogonalize(const at::Tensor& w) {
  const int64_t batch = w.size(0);
  const JacobiPlan plan = jacobi_plan(profile_of(w), dtype_of_columns(w), static_cast<uint64_t>(w.size(1)),
                                      static_cast<uint64_t>(w.size(2)));
  const at::Tensor flags = at::zeros({batch, kJacobiSweeps + 1}, w.options().dtype(at::kInt));
  flags.select(1, 0).fill_(1);
  const JacobiSweepSpec spec = spec_of(plan);
  const uint32_t rounds = std::max<uint32_t>(1, plan.blocks - 1);
  const Grid grid = linear_grid(static_cast<uint64_t>(batch) * std::max<uint32_t>(1, plan.blocks / 2));
  for (uint32_t sweep = 0; sweep < kJacobiSweeps; sweep += plan.sweeps_of_launch) {
    for (uint32_t round = 0; round < rounds; ++round) {
      TensorArgs args;
      JacobiSweepParams p{};
      p.w = args.read_write(w);
      p.flags = args.read_write(flags);
      p.rows = u32(w.size(1));
      p.columns = u32(w.size(2));
      p.block = plan.block;
      p.blocks = plan.blocks;
      p.round_ = round;
      p.sweep = sweep;
      p.sweeps = std::min(plan.sweeps_of_launch, kJacobiSweeps - sweep);
      p.flags_of_matrix = kJacobiSweeps + 1;
      launch(current(w), kernel::jacobi_sweep(dtype_of_columns(w)), spec, p, args, grid);
    }
  }
}

void write_info(const at::Tensor& values, int64_t code, const at::Tensor& info) {
  info.copy_(at::where(values.isfinite().all(1), 0, code).view(info.sizes()));
}

namespace {

at::Tensor values_of(const at::Tensor& v, const at::Tensor& y) {
  const at::Tensor values = empty_reals(v, {v.size(0), v.size(2)});
  TensorArgs args;
  JacobiValuesParams p{};
  p.v = y.defined() ? args.read(v) : args.read_write(v);
  p.y = y.defined() ? args.read(y) : p.v;
  p.values = args.write(values);
  p.rows = u32(v.size(1));
  launch(current(v), kernel::jacobi_values(dtype_of_columns(v)), {.rayleigh = y.defined()}, p, args,
         linear_grid(static_cast<uint64_t>(values.numel())));
  return values;
}

}  // namespace

at::Tensor normalize_columns(const at::Tensor& w) { return values_of(w, {}); }
at::Tensor rayleigh_quotients(const at::Tensor& v, const at::Tensor& y) { return values_of(v, y); }

void sort_columns(const at::Tensor& values, const at::Tensor& scale, const at::Tensor& vectors,
                  const at::Tensor& sorted_values, const at::Tensor& sorted_vectors, bool descending) {
  const DType dtype = vectors.defined() ? dtype_of_columns(vectors) : dtype_of_columns(values);
  TensorArgs args;
  JacobiSortParams p{};
  p.values = args.read(values);
  p.scale = args.read(scale);
  p.sorted_values = args.write(sorted_values);
  if (vectors.defined()) {
    p.vectors = args.read(vectors);
    p.sorted_vectors = args.write(sorted_vectors);
    p.rows = u32(vectors.size(1));
  }
  p.n = u32(values.size(1));
  const uint32_t local = p.n <= 32 ? 32 : 256, lanes = p.n <= 32 ? 1 : 8;
  launch(current(values), kernel::jacobi_sort(dtype),
         {.local = static_cast<int>(local),
          .descending = descending,
          .has_vectors = vectors.defined(),
          .lanes = static_cast<int>(lanes)},
         p, args, linear_grid(static_cast<uint64_t>(values.size(0)) * ceil_div(p.n, local / lanes)));
}

}  // namespace aule::ops
