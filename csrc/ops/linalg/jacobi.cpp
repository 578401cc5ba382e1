#include "ops/linalg/jacobi.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "kernels_linalg.gen.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Random matrices take 8 to 12, spectra of many magnitudes under a shift up to 30 at 256 columns. Those that are not
// needed end at once.
constexpr uint32_t kMostSweeps = 36;
constexpr uint32_t kLeastBlock = 8, kBlockInMemory = 16;
// A few sizes of shared memory, so that pipelines are few; with what else the kernel declares under 32 KiB.
constexpr std::array<uint32_t, 4> kColumnBytes = {1024, 4096, 12288, 24064};

DType dtype_of_columns(const at::Tensor& t) { return real_or_complex_dtype_of(t.scalar_type(), "jacobi"); }
uint32_t u32(int64_t x) { return static_cast<uint32_t>(x); }

uint32_t columns_of(const JacobiPlan& plan, uint64_t columns) {
  return plan.blocks == 1 ? static_cast<uint32_t>(columns) : 2 * plan.block;
}

// Iterations of an invocation in one sweep.
uint64_t iterations_of_sweep(const JacobiPlan& plan, uint64_t rows, uint64_t columns) {
  const uint64_t own = columns_of(plan, columns), pairs = ceil_div(own, 2);
  const uint64_t rounds = own + 1, passes = ceil_div(pairs, plan.local / plan.lanes);
  return rounds * passes * (2 * ceil_div(rows, plan.lanes) + plan.lanes + 1);
}
uint64_t moves_of(const JacobiPlan& plan, uint64_t rows, uint64_t columns) {
  return 2 * ceil_div(columns_of(plan, columns) * rows, plan.local);
}

// Invocations for the pairs of a round.
void set_lanes(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns, JacobiPlan& plan) {
  const uint32_t pairs = ceil_div(columns_of(plan, columns), 2);
  plan.local = 32;
  if (profile.is_software()) {
    plan.local = rows <= 8 ? 8 : 32;
    plan.lanes = pairs >= plan.local ? 1 : pairs >= plan.local / 4 ? 4 : 8;
    if (!plan.in_shared) plan.local = 128, plan.lanes = 8;
    return;
  }
  const uint32_t most =
      std::min<uint32_t>(profile.max_workgroup_invocations, dtype == DType::f32 || dtype == DType::c64 ? 256 : 128);
  plan.lanes = rows <= 4 ? 2 : rows <= 16 ? 4 : 8;
  while (plan.lanes > 1 && pairs * plan.lanes > most) plan.lanes /= 2;
  while (plan.lanes < 32 && pairs * plan.lanes * 2 <= 64 && rows >= uint64_t{plan.lanes} * 8) plan.lanes *= 2;
  while (plan.local < most && plan.local < pairs * plan.lanes) plan.local *= 2;
}

JacobiSweepSpec spec_of(const JacobiPlan& plan) {
  return {.local = static_cast<int>(plan.local),
          .lanes = static_cast<int>(plan.lanes),
          .in_shared = plan.in_shared,
          .elems = static_cast<int>(plan.elems)};
}

// Shared memory for a workgroup's columns; false where they do not fit.
bool set_shared(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns, JacobiPlan& plan) {
  const uint64_t bytes = (rows | 1) * columns_of(plan, columns) * dtype_size(dtype);
  const auto tile = std::find_if(kColumnBytes.begin(), kColumnBytes.end(), [&](uint32_t b) { return bytes <= b; });
  if (tile == kColumnBytes.end()) return false;
  plan.in_shared = true;
  plan.elems = static_cast<uint32_t>(*tile / dtype_size(dtype));
  set_lanes(profile, dtype, rows, columns, plan);
  plan.in_shared = shared_bytes(kernel::jacobi_sweep(dtype), spec_of(plan)) <= profile.shared_bytes;
  return plan.in_shared;
}

void divide(uint64_t columns, uint32_t block, JacobiPlan& plan) {
  plan.blocks = narrow<uint32_t>(2 * ceil_div(columns, 2 * block));
  plan.block = narrow<uint32_t>(ceil_div(columns, plan.blocks));
}

}  // namespace

JacobiPlan jacobi_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns) {
  const auto walk = [&](const JacobiPlan& plan) {
    return moves_of(plan, rows, columns) + iterations_of_sweep(plan, rows, columns) + 1;
  };
  JacobiPlan plan;
  if (set_shared(profile, dtype, rows, columns, plan) && may_walk(profile, walk(plan))) {
    const uint64_t moves = moves_of(plan, rows, columns), sweep = walk(plan) - moves;
    plan.sweeps_of_launch =
        static_cast<uint32_t>(std::min<uint64_t>(kMostSweeps, (longest_walk(profile) - moves) / sweep));
    return plan;
  }
  // Blocks of as many columns as two of them fit. Where those are few, blocks stay in memory, with fewer launches.
  uint64_t block = kColumnBytes.back() / ((rows | 1) * dtype_size(dtype) * 2);
  for (bool in_shared = true;; block /= 2) {
    if (block < kLeastBlock && in_shared) {
      in_shared = false;
      block = kBlockInMemory;
    }
    plan = {};
    divide(columns, static_cast<uint32_t>(std::max<uint64_t>(block, 1)), plan);
    if (in_shared && !set_shared(profile, dtype, rows, columns, plan)) continue;
    if (!in_shared) set_lanes(profile, dtype, rows, columns, plan);
    if (plan.block == 1 || may_walk(profile, walk(plan))) break;
  }
  check_walk("linalg", profile, walk(plan));
  return plan;
}

std::string text_of(const JacobiPlan& plan) {
  return "block " + std::to_string(plan.block) + " blocks " + std::to_string(plan.blocks) + " sweeps " +
         std::to_string(plan.sweeps_of_launch) + " local " + std::to_string(plan.local) + " lanes " +
         std::to_string(plan.lanes) + (plan.in_shared ? " shared " + std::to_string(plan.elems) : " in memory");
}

at::Tensor empty_matrices(const at::Tensor& like, int64_t rows, int64_t columns) {
  return at::empty({like.size(0), columns, rows}, like.options()).mT();
}
at::Tensor empty_reals(const at::Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(c10::toRealValueType(like.scalar_type())));
}

namespace {

JacobiStart start(const at::Tensor& a, int64_t n, bool is_hermitian, bool upper) {
  JacobiStart s{empty_matrices(a, n, n), is_hermitian ? empty_matrices(a, n, n) : at::Tensor(),
                empty_reals(a, {a.size(0)})};
  TensorArgs args;
  JacobiStartParams p{};
  p.a = args.read(a);
  p.w = args.write(s.w);
  if (is_hermitian) p.h = args.write(s.h);
  p.scale = args.write(s.scale);
  p.a_batch = a.stride(0);
  p.a_column = u32(a.stride(2));
  p.n = u32(n);
  const int local = n <= 16 ? 32 : n <= 256 ? 64 : 256;
  launch(current(a), kernel::jacobi_start(dtype_of_columns(a)),
         {.local = local, .hermitian = is_hermitian, .upper = upper}, p, args,
         linear_grid(static_cast<uint64_t>(a.size(0))));
  return s;
}

}  // namespace

JacobiStart start_from_triangle(const at::Tensor& r) { return start(r, r.size(2), false, false); }
JacobiStart start_from_hermitian(const at::Tensor& a, bool upper) { return start(a, a.size(2), true, upper); }

void orthogonalize(const at::Tensor& w) {
  const int64_t batch = w.size(0);
  const JacobiPlan plan = jacobi_plan(profile_of(w), dtype_of_columns(w), static_cast<uint64_t>(w.size(1)),
                                      static_cast<uint64_t>(w.size(2)));
  const at::Tensor flags = at::zeros({batch, kMostSweeps + 1}, w.options().dtype(at::kInt));
  flags.select(1, 0).fill_(1);
  const JacobiSweepSpec spec = spec_of(plan);
  const uint32_t rounds = std::max<uint32_t>(1, plan.blocks - 1);
  const Grid grid = linear_grid(static_cast<uint64_t>(batch) * std::max<uint32_t>(1, plan.blocks / 2));
  for (uint32_t sweep = 0; sweep < kMostSweeps; sweep += plan.sweeps_of_launch) {
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
      p.sweeps = std::min(plan.sweeps_of_launch, kMostSweeps - sweep);
      p.flags_of_matrix = kMostSweeps + 1;
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
  const int local = p.n <= 32 ? 32 : 256;
  launch(current(values), kernel::jacobi_sort(dtype),
         {.local = local, .descending = descending, .has_vectors = vectors.defined()}, p, args,
         linear_grid(static_cast<uint64_t>(values.size(0))));
}

}  // namespace aule::ops
