#include "ops/reduce/plan.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

using Dims = c10::SmallVector<ReduceDim, 8>;

constexpr int64_t kMaxSize = 0xffffffffll;  // the kernel's sizes are 32-bit, except the slowest

// Joins neighbours that are one dimension in memory. Only the slowest may pass 32 bits, so it never absorbs that far.
void coalesce(Dims& dims) {
  size_t n = 0;
  for (const ReduceDim& d : dims) {
    if (n > 0) {
      ReduceDim& last = dims[n - 1];
      if (last.in * last.size == d.in && last.out * last.size == d.out && last.size * d.size <= kMaxSize) {
        last.size *= d.size;
        continue;
      }
    }
    dims[n++] = d;
  }
  dims.resize(n);
}

std::optional<ReduceLayout> layout_of(const ReductionProblem& problem) {
  ReduceLayout layout;
  Dims kept, red;
  const bool keepdim = problem.out_strides.size() == problem.sizes.size();
  size_t out_dim = problem.out_strides.size();
  for (size_t d = problem.sizes.size(); d-- > 0;) {
    const int64_t size = problem.sizes[d];
    if (problem.reduced[d]) {
      if (keepdim) --out_dim;
      layout.n_red *= size;
      if (size != 1) red.push_back({size, problem.strides[d], 0});
    } else {
      --out_dim;
      layout.n_out *= size;
      if (size != 1) kept.push_back({size, problem.strides[d], problem.out_strides[out_dim]});
    }
  }
  auto by_stride = [](const ReduceDim& a, const ReduceDim& b) { return a.in < b.in; };
  std::stable_sort(kept.begin(), kept.end(), by_stride);
  // An index counts the reduced dimensions in their logical order.
  if (problem.reduction.kind != ReduceKind::arg) std::stable_sort(red.begin(), red.end(), by_stride);
  coalesce(kept);
  coalesce(red);
  if (kept.size() > layout.kept.size() || red.size() > layout.red.size()) return std::nullopt;
  std::copy(kept.begin(), kept.end(), layout.kept.begin());
  std::copy(red.begin(), red.end(), layout.red.begin());
  layout.kept_dims = kept.size();
  layout.red_dims = red.size();
  return layout;
}

std::optional<ColumnSumPlan> column_sum_plan(const DeviceProfile& profile, const ReductionProblem& problem,
                                             const ReduceLayout& layout) {
  const Reduction& r = problem.reduction;
  if (r.kind != ReduceKind::value || (r.op != ReduceOp::sum && r.op != ReduceOp::mean)) return std::nullopt;
  if (profile.is_software() || profile.max_workgroup_invocations < 256) return std::nullopt;
  if (layout.kept_dims != 1 || layout.red_dims != 1 || layout.kept[0].in != 1 || layout.kept[0].out != 1)
    return std::nullopt;
  const auto serves = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  if (!serves(problem.in) || !serves(problem.result)) return std::nullopt;
  const int64_t rows = layout.n_red, n = layout.n_out, row_stride = layout.red[0].in;
  const int64_t elems = 16 / static_cast<int64_t>(dtype_size(problem.in));
  constexpr int64_t kFewRows = 64, kRowsOfSplit = 32, kGroupsEach = 4;
  if (rows < kFewRows || rows > 0x7fffffff || n > 0x7fffffff || n % elems != 0 || row_stride % elems != 0 ||
      problem.in_address % 16 != 0)
    return std::nullopt;
  const int64_t blocks = (n + 32 * elems - 1) / (32 * elems);
  const int64_t wanted = std::max<int64_t>(1, kGroupsEach * profile.multiprocessors / blocks);
  const int64_t chunk = std::max<int64_t>(kRowsOfSplit, ceil_div(rows, wanted)), splits = ceil_div(rows, chunk);
  if (!may_walk(profile, chunk / kRowsOfSplit + splits / 8)) return std::nullopt;
  return ColumnSumPlan{.row_stride = row_stride,
                       .chunk = chunk,
                       .splits = static_cast<uint32_t>(splits),
                       .blocks = static_cast<uint32_t>(blocks),
                       .grid = linear_grid(blocks * splits),
                       .sum_blocks = narrow<uint32_t>(ceil_div(n, 32))};
}

int64_t state_bytes(ReduceKind kind, DType c) {
  const auto element = static_cast<int64_t>(dtype_size(c));
  switch (kind) {
    case ReduceKind::value: return element;
    case ReduceKind::arg: return 16;
    case ReduceKind::moments: return 3 * element;
    default: return 2 * element;
  }
}

// The most reduced elements for the loops of one invocation. A block of 512 takes one iteration, and one for each of
// its elements, or for every four if their addresses need no division. Moments may read a block twice.
int64_t longest_chunk(const Caps& caps, const ReduceLayout& layout, ReduceKind kind) {
  constexpr int64_t kBlock = 512;
  const auto walk = static_cast<int64_t>(longest_walk(caps));
  const int64_t cost = kind == ReduceKind::moments ? 2 * kBlock + 1
                       : layout.red_dims <= 1      ? kBlock / 4 + 1
                                                   : kBlock + 1;
  return walk < cost ? std::max<int64_t>(1, walk - 1) : walk / cost * kBlock;
}

uint32_t most_local(const DeviceProfile& profile) {
  return std::min(256u, std::bit_floor(profile.max_workgroup_invocations));
}

// Over the input. Chunks must fill the device, be long enough to pay for a second pass, and be no longer than a loop
// may be.
ReducePass first_pass(const DeviceProfile& profile, const ReduceLayout& layout, ReduceKind kind) {
  const bool cpu = profile.is_software();
  const bool column = layout.kept_dims > 0 && layout.kept[0].in == 1;
  ReducePass pass;
  int64_t wanted;    // chunks per output that would fill the device
  int64_t shortest;  // a shorter chunk does not pay for a second pass
  if (cpu) {
    wanted = 256 / layout.n_out;
    shortest = 1024;
  } else if (!column && layout.n_red >= 64) {
    pass.by_workgroup = true;
    const uint32_t most = most_local(profile);
    pass.local =
        std::clamp<uint32_t>(std::bit_ceil(static_cast<uint32_t>(std::min<int64_t>(layout.n_red / 4, most))), 32, most);
    wanted = 1024 / layout.n_out;
    shortest = 8192;
  } else {  // for columns. An invocation loads one element of a row, and therefore many are needed to keep enough
            // bytes in flight.
    wanted = (int64_t{1} << 18) / layout.n_out;
    shortest = 32;
  }
  int64_t splits = std::max<int64_t>(1, std::min(wanted, layout.n_red / shortest));
  if (walks_limited(profile)) {
    const int64_t longest = longest_chunk(profile, layout, kind) * (pass.by_workgroup ? pass.local : 1);
    splits = std::max(splits, ceil_div(layout.n_red, longest));
  }
  pass.n_red = layout.n_red;
  pass.chunk = ceil_div(layout.n_red, splits);
  pass.chunks = layout.n_red == 0 ? 1 : ceil_div(layout.n_red, pass.chunk);
  pass.step = pass.chunks == 1 ? ReducePass::Step::input_to_results : ReducePass::Step::input_to_states;
  if (!pass.by_workgroup) pass.local = cpu ? (layout.n_out * splits <= 4096 ? 8 : 32) : 128;
  return pass;
}

Grid grid_of(const ReducePass& pass, int64_t n_out) {
  const int64_t work = n_out * pass.chunks;
  return linear_grid(pass.by_workgroup ? work : ceil_div(work, pass.local));
}

ReducePlan reduce_plan(const DeviceProfile& profile, const ReductionProblem& problem, const ReduceLayout& layout) {
  ReducePlan plan;
  plan.arithmetic = arithmetic_of(problem);
  plan.state_bytes = state_bytes(problem.reduction.kind, plan.arithmetic);
  plan.passes.push_back(first_pass(profile, layout, problem.reduction.kind));
  int64_t states = plan.passes[0].chunks;
  plan.needs_u64 = layout.n_out * layout.n_red > kMaxSize || layout.n_out * states > kMaxSize;
  if (states > 1) {
    // If an output has more states than one invocation may loop over, another pass reduces their number first.
    while (!may_walk(profile, states)) {
      const int64_t chunk = std::max<int64_t>(2, static_cast<int64_t>(longest_walk(profile)));
      const int64_t fewer = ceil_div(states, chunk);
      plan.passes.push_back(
          {.step = ReducePass::Step::states_to_fewer, .local = 8, .n_red = states, .chunk = chunk, .chunks = fewer});
      states = fewer;
    }
    const bool by_workgroup = !profile.is_software() && states >= 32;
    plan.passes.push_back(
        {.step = ReducePass::Step::states_to_results,
         .by_workgroup = by_workgroup,
         .local = by_workgroup ? std::min(most_local(profile), std::bit_ceil(static_cast<uint32_t>(states))) : 8,
         .n_red = states,
         .chunk = layout.n_red});
  }
  for (ReducePass& pass : plan.passes) pass.grid = grid_of(pass, layout.n_out);
  return plan;
}

std::string text_of(const ColumnSumPlan& plan) {
  std::ostringstream text;
  text << "column_sum chunk " << plan.chunk << " splits " << plan.splits << ' ' << grid_text(plan.grid) << ", sum "
       << grid_text(linear_grid(plan.sum_blocks));
  return text.str();
}

std::string text_of(const ReducePlan& plan) {
  static constexpr const char* kSteps[] = {"input to results", "input to states", "states to results",
                                           "states to fewer"};
  std::ostringstream text;
  switch (plan.arithmetic) {
    case DType::f64: text << "f64"; break;
    case DType::i64: text << "i64"; break;
    case DType::c64: text << "c64"; break;
    case DType::c128: text << "c128"; break;
    default: text << "f32"; break;
  }
  if (plan.needs_u64) text << " u64";
  for (const ReducePass& pass : plan.passes) {
    text << (&pass == plan.passes.begin() ? ": " : ", ") << kSteps[static_cast<size_t>(pass.step)] << " by "
         << (pass.by_workgroup ? "workgroup" : "invocation") << " local " << pass.local << " of " << pass.n_red
         << " chunk " << pass.chunk << ' ' << grid_text(pass.grid);
  }
  return text.str();
}

}  // namespace

DType arithmetic_of(const ReductionProblem& problem) {
  const Reduction& r = problem.reduction;
  const DType out = r.kind == ReduceKind::arg ? problem.in : problem.result;
  if (r.op == ReduceOp::any || r.op == ReduceOp::all || r.op == ReduceOp::count) return DType::i64;
  if (is_complex(problem.in) || is_complex(out)) {
    const auto is_wide = [](DType t) { return t == DType::f64 || t == DType::c128; };
    return is_wide(problem.in) || is_wide(out) ? DType::c128 : DType::c64;
  }
  if (problem.in == DType::f64 || out == DType::f64) return DType::f64;
  return is_floating(out) ? DType::f32 : DType::i64;
}

std::optional<ReductionPlan> reduction_plan(const DeviceProfile& profile, const ReductionProblem& problem) {
  const auto layout = layout_of(problem);
  if (!layout) return std::nullopt;
  if (const auto columns = column_sum_plan(profile, problem, *layout)) return ReductionPlan{*layout, *columns};
  return ReductionPlan{*layout, reduce_plan(profile, problem, *layout)};
}

NormListPlan norm_list_plan(const DeviceProfile& profile) {
  // One invocation or workgroup adds up what the chunks of a tensor came to.
  if (!profile.is_software()) return {.by_workgroup = true, .local = 128, .chunk = 8192, .most_elems = 1 << 30};
  NormListPlan plan;
  const uint64_t walk = longest_walk(profile), others = 16;  // others: turns that look for the entry
  if (walk < plan.chunk / 4 + others) return plan;
  plan.most_elems = static_cast<int64_t>(std::min<uint64_t>(walk - others, 4096) * plan.chunk);
  return plan;
}

std::string text_of(const NormListPlan& plan) {
  return std::string(plan.by_workgroup ? "workgroups" : "invocations") + " local " + std::to_string(plan.local) +
         " chunk " + std::to_string(plan.chunk) + " up to " + std::to_string(plan.most_elems);
}

std::string text_of(const ReductionPlan& plan) {
  std::ostringstream text;
  const ReduceLayout& l = plan.layout;
  const auto dims = [&](const char* name, const ReduceDim* first, size_t count) {
    text << name;
    for (size_t i = 0; i < count; ++i) text << (i == 0 ? " " : ", ") << first[i].size << '*' << first[i].in;
  };
  dims("kept", l.kept.data(), l.kept_dims);
  dims(" reduced", l.red.data(), l.red_dims);
  text << "; " << std::visit([](const auto& kernels) { return text_of(kernels); }, plan.kernels);
  return text.str();
}

}  // namespace aule::ops
