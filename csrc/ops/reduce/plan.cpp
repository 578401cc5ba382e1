#include "ops/reduce/plan.h"

#include <ATen/ops/empty.h>
#include <ATen/WrapDimUtilsMulti.h>

#include <algorithm>
#include <bit>

#include "kernels_reduce.gen.h"
#include "ops/reduce/column_sum.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Dim {
  int64_t size, in, out;  // strides in elements; reduced dimensions have no `out`
};

struct Plan {
  c10::SmallVector<Dim, 8> kept, red;  // fastest first
  int64_t n_out = 1, n_red = 1;
};

constexpr size_t kKept = 3, kRed = 2;       // what the kernel's params hold
constexpr int64_t kMaxSize = 0xffffffffll;  // its sizes are 32-bit, except the slowest

// Joins neighbours that are one dimension in memory. Only the slowest may pass 32 bits, so it never absorbs that far.
void coalesce(c10::SmallVector<Dim, 8>& dims) {
  size_t n = 0;
  for (const Dim& d : dims) {
    if (n > 0) {
      Dim& last = dims[n - 1];
      if (last.in * last.size == d.in && last.out * last.size == d.out && last.size * d.size <= kMaxSize) {
        last.size *= d.size;
        continue;
      }
    }
    dims[n++] = d;
  }
  dims.resize(n);
}

Plan make_plan(const at::Tensor& self, const DimMask& mask, const at::Tensor& out, bool ordered) {
  Plan plan;
  const bool keepdim = out.dim() == self.dim();
  int64_t out_dim = out.dim();
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    if (mask[d]) {
      if (keepdim) --out_dim;
      plan.n_red *= size;
      if (size != 1) plan.red.push_back({size, self.stride(d), 0});
    } else {
      --out_dim;
      plan.n_out *= size;
      if (size != 1) plan.kept.push_back({size, self.stride(d), out.stride(out_dim)});
    }
  }
  auto by_stride = [](const Dim& a, const Dim& b) { return a.in < b.in; };
  std::stable_sort(plan.kept.begin(), plan.kept.end(), by_stride);
  if (!ordered) std::stable_sort(plan.red.begin(), plan.red.end(), by_stride);
  coalesce(plan.kept);
  coalesce(plan.red);
  return plan;
}

// The arithmetic type: integers in int64 (as are yes/no answers and counts, of any dtype), else float or double.
DType arithmetic_type(const Reduction& r, DType in, DType out) {
  if (r.op == ReduceOp::any || r.op == ReduceOp::all || r.op == ReduceOp::count) return DType::i64;
  if (in == DType::f64 || out == DType::f64) return DType::f64;
  return is_floating(out) ? DType::f32 : DType::i64;
}

uint64_t state_bytes(ReduceKind kind, DType c) {
  const uint64_t element = dtype_size(c);
  switch (kind) {
    case ReduceKind::value: return element;
    case ReduceKind::arg: return 16;
    case ReduceKind::moments: return 3 * element;
    default: return 2 * element;
  }
}

struct Shape {
  bool group;      // one workgroup per output instead of one invocation
  uint32_t local;  // workgroup size
  int64_t chunk;   // reduced elements per invocation or workgroup
};

// The most reduced elements for the loops of one invocation. A block of 512 takes one iteration, and one for each of
// its elements, or for every four if their addresses need no division.
int64_t longest_chunk(const Caps& caps, const Plan& plan, ReduceKind kind) {
  constexpr int64_t kBlock = 512;
  const auto walk = static_cast<int64_t>(longest_walk(caps));
  const int64_t cost = kind != ReduceKind::moments && plan.red.size() <= 1 ? kBlock / 4 + 1 : kBlock + 1;
  return walk < cost ? std::max<int64_t>(1, walk - 1) : walk / cost * kBlock;
}

// Chunks must fill the device, be long enough to pay for a second pass, and be no longer than a loop may be.
Shape choose(const Caps& caps, const Plan& plan, ReduceKind kind) {
  const bool cpu = caps.is_software();
  const bool column = !plan.kept.empty() && plan.kept[0].in == 1;
  Shape s{};
  int64_t wanted;    // chunks per output that would fill the device
  int64_t shortest;  // a shorter chunk does not pay for a second pass
  if (cpu) {
    s.group = false;
    wanted = 256 / plan.n_out;
    shortest = 1024;
  } else if (!column && plan.n_red >= 64) {
    s.group = true;
    s.local =
        std::clamp<uint32_t>(std::bit_ceil(static_cast<uint32_t>(std::min<int64_t>(plan.n_red / 4, 256))), 32, 256);
    wanted = 1024 / plan.n_out;
    shortest = 8192;
  } else {
    s.group = false;  // for columns. An invocation loads one element of a row, so many invocations are needed to keep
                      // enough bytes in flight.
    wanted = (int64_t{1} << 18) / plan.n_out;
    shortest = 32;
  }
  int64_t splits = std::max<int64_t>(1, std::min(wanted, plan.n_red / shortest));
  if (walks_limited(caps)) {
    const int64_t longest = longest_chunk(caps, plan, kind) * (s.group ? s.local : 1);
    splits = std::max(splits, (plan.n_red + longest - 1) / longest);
  }
  s.chunk = (plan.n_red + splits - 1) / splits;
  if (!s.group) s.local = cpu ? (plan.n_out * splits <= 4096 ? 8 : 32) : 128;
  return s;
}

ReduceSTATE state_axis(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::value: return ReduceSTATE::value;
    case ReduceKind::arg: return ReduceSTATE::arg;
    case ReduceKind::moments: return ReduceSTATE::moments;
    case ReduceKind::lse: return ReduceSTATE::lse;
    default: return ReduceSTATE::minmax;
  }
}

void run_plan(const char* name, const Reduction& r, const at::Tensor& self, const Plan& plan, const at::Tensor& out,
              const at::Tensor& out2) {
  const bool adds = r.kind == ReduceKind::value && (r.op == ReduceOp::sum || r.op == ReduceOp::mean);
  if (adds && plan.kept.size() == 1 && plan.red.size() == 1 && plan.kept[0].in == 1 && plan.kept[0].out == 1 &&
      column_sum(name, self, plan.n_red, plan.n_out, plan.red[0].in,
                 r.op == ReduceOp::mean ? 1.0 / static_cast<double>(plan.n_red) : 1.0, out))
    return;
  const DType in = dtype_of(self, name);
  const DType result = out.defined() ? dtype_of(out, name) : DType::i64;
  const DType c = arithmetic_type(r, in, r.kind == ReduceKind::arg ? in : result);
  auto& stream = current(self);
  const Caps& caps = caps_of(self);
  const Shape shape = choose(caps, plan, r.kind);
  int64_t splits = plan.n_red == 0 ? 1 : ceil_div(plan.n_red, shape.chunk);
  const bool wide = self.numel() > kMaxSize || plan.n_out * splits > kMaxSize;

  ReduceParams p{};
  p.n_out = plan.n_out;
  p.n_red = plan.n_red;
  p.chunk = shape.chunk;
  p.arg = r.arg;
  p.kept_size[0] = p.kept_size[1] = 1;
  for (size_t i = 0; i < plan.kept.size(); ++i) {
    p.in_stride[i] = plan.kept[i].in;
    p.out_stride[i] = plan.kept[i].out;
  }
  // The slowest dimension's size is not used, because its index is the last quotient.
  if (plan.kept.size() > 0) p.kept_size[0] = static_cast<uint32_t>(std::min(plan.kept[0].size, kMaxSize));
  if (plan.kept.size() > 1) p.kept_size[1] = static_cast<uint32_t>(std::min(plan.kept[1].size, kMaxSize));
  for (size_t i = 0; i < plan.red.size(); ++i) p.red_stride[i] = plan.red[i].in;
  if (plan.red.size() == 2) p.red_size = static_cast<uint32_t>(plan.red[0].size);

  auto go = [&](int pass, const TensorArgs& args, bool group, uint32_t local, int64_t chunks) {
    ReduceSpec spec{.in_dtype = in,
                    .out_dtype = result,
                    .op = static_cast<int>(r.op),
                    .pass = pass,
                    .needs_u64 = wide,
                    .finds_minimum = r.minimum,
                    .local = local};
    const int64_t work = plan.n_out * chunks;
    launch(stream, kernel::reduce(c, state_axis(r.kind), group ? 1 : 0), spec, p, args,
           linear_grid(group ? work : ceil_div(work, local)));
  };
  auto write_results = [&](TensorArgs& args) {
    p.out_ = out.defined() ? args.write(out) : 0;
    p.out2 = out2.defined() ? args.write(out2) : 0;
  };

  TensorArgs args;
  p.in_ = args.read(self);
  if (splits == 1) {
    write_results(args);
    go(0, args, shape.group, shape.local, 1);
    return;
  }
  const auto states = [&](int64_t chunks) {
    return at::empty({static_cast<int64_t>(state_bytes(r.kind, c)) * chunks * plan.n_out},
                     self.options().dtype(at::kByte));
  };
  at::Tensor scratch = states(splits);
  p.out_ = args.write(scratch);
  go(1, args, shape.group, shape.local, splits);
  // If an output has more states than one invocation may loop over, another pass reduces their number first.
  const bool cpu = caps.is_software();
  while (!may_walk(caps, splits)) {
    p.n_red = splits;
    p.chunk = std::max<uint64_t>(2, longest_walk(caps));
    splits = ceil_div(splits, p.chunk);
    const at::Tensor fewer = states(splits);
    TensorArgs between;
    p.in_ = between.read(scratch);
    p.out_ = between.write(fewer);
    go(3, between, false, 8, splits);
    scratch = fewer;
  }

  TensorArgs second;
  p.in_ = second.read(scratch);
  write_results(second);
  p.n_red = splits;
  p.chunk = plan.n_red;  // at least `splits`, and the divisor of the mean
  const bool group = !cpu && splits >= 32;
  go(2, second, group, group ? std::min<uint32_t>(256, std::bit_ceil(static_cast<uint32_t>(splits))) : 8, 1);
}

}  // namespace

DimMask reduced_dims(at::OptionalIntArrayRef dim, int64_t ndim) {
  if (!dim.has_value() || dim->empty()) return DimMask().set();
  return at::dim_list_to_bitset(dim, ndim);
}

std::vector<int64_t> reduced_shape(const at::Tensor& self, const DimMask& mask, bool keepdim) {
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!mask[d])
      shape.push_back(self.size(d));
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

void run_reduction(const char* name, const Reduction& reduction, const at::Tensor& self, const DimMask& mask,
                   const at::Tensor& out, const at::Tensor& out2) {
  const at::Tensor& first = out.defined() ? out : out2;
  check_same_device(name, {&self, &first});
  if (first.numel() == 0) return;
  // Both results share one set of output strides.
  if (out.defined() && out2.defined() && out.strides() != out2.strides()) {
    at::Tensor dense = at::empty(out.sizes(), out.options()), dense2 = at::empty(out2.sizes(), out2.options());
    run_reduction(name, reduction, self, mask, dense, dense2);
    out.copy_(dense);
    out2.copy_(dense2);
    return;
  }
  const bool ordered = reduction.kind == ReduceKind::arg;
  Plan plan = make_plan(self, mask, first, ordered);
  if (plan.kept.size() <= kKept && plan.red.size() <= kRed) {
    run_plan(name, reduction, self, plan, out, out2);
    return;
  }
  // With too many dimensions for the kernel, a copy has the reduced ones last, as one dimension, and so do the outputs.
  std::vector<int64_t> order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (!mask[d]) order.push_back(d);
  for (int64_t d = 0; d < self.dim(); ++d)
    if (mask[d]) order.push_back(d);
  at::Tensor rows = self.permute(order).contiguous().reshape({plan.n_out, plan.n_red});
  DimMask last;
  last.set(1);
  at::Tensor dense = out.defined() ? at::empty({plan.n_out}, out.options()) : at::Tensor();
  at::Tensor dense2 = out2.defined() ? at::empty({plan.n_out}, out2.options()) : at::Tensor();
  run_plan(name, reduction, rows, make_plan(rows, last, dense.defined() ? dense : dense2, ordered), dense, dense2);
  if (out.defined()) out.copy_(dense.view(out.sizes()));
  if (out2.defined()) out2.copy_(dense2.view(out2.sizes()));
}

}  // namespace aule::ops
