#include "ops/reduce/run.h"

#include <ATen/ops/empty.h>
#include <ATen/WrapDimUtilsMulti.h>

#include <algorithm>

#include "kernels_reduce.gen.h"
#include "ops/reduce/column_sum.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

ReduceSTATE state_axis(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::value: return ReduceSTATE::value;
    case ReduceKind::arg: return ReduceSTATE::arg;
    case ReduceKind::moments: return ReduceSTATE::moments;
    case ReduceKind::lse: return ReduceSTATE::lse;
    default: return ReduceSTATE::minmax;
  }
}

ReductionProblem problem_of(const char* name, const Reduction& reduction, const at::Tensor& self, const DimMask& mask,
                            const at::Tensor& out, const at::Tensor& first) {
  const auto sizes = self.sizes(), strides = self.strides(), out_strides = first.strides();
  return {.reduction = reduction,
          .sizes = {sizes.data(), sizes.size()},
          .strides = {strides.data(), strides.size()},
          .out_strides = {out_strides.data(), out_strides.size()},
          .reduced = mask,
          .in = real_or_complex_dtype_of(self.scalar_type(), name),
          .result = out.defined() ? real_or_complex_dtype_of(out.scalar_type(), name) : DType::i64,
          .in_address = address_of(self)};
}

ReduceParams params_of(const ReduceLayout& layout, float arg) {
  ReduceParams p{};
  p.n_out = layout.n_out;
  p.arg = arg;
  for (size_t i = 0; i < layout.kept_dims; ++i) {
    p.in_stride[i] = layout.kept[i].in;
    p.out_stride[i] = layout.kept[i].out;
  }
  // The slowest dimension's size is not used, because its index is the last quotient.
  constexpr int64_t kMaxSize = 0xffffffffll;
  p.kept_size[0] = p.kept_size[1] = 1;
  if (layout.kept_dims > 0) p.kept_size[0] = static_cast<uint32_t>(std::min(layout.kept[0].size, kMaxSize));
  if (layout.kept_dims > 1) p.kept_size[1] = static_cast<uint32_t>(std::min(layout.kept[1].size, kMaxSize));
  for (size_t i = 0; i < layout.red_dims; ++i) p.red_stride[i] = layout.red[i].in;
  if (layout.red_dims == 2) p.red_size = static_cast<uint32_t>(layout.red[0].size);
  return p;
}

void launch_passes(const ReductionProblem& problem, const ReduceLayout& layout, const ReducePlan& plan,
                   const at::Tensor& self, const at::Tensor& out, const at::Tensor& out2) {
  const Reduction& r = problem.reduction;
  auto& stream = current(self);
  ReduceParams p = params_of(layout, r.arg);
  at::Tensor from = self;
  for (const ReducePass& pass : plan.passes) {
    TensorArgs args;
    at::Tensor states;
    p.in_ = args.read(from);
    p.n_red = pass.n_red;
    p.chunk = pass.chunk;
    if (&pass == &plan.passes.back()) {
      p.out_ = out.defined() ? args.write(out) : 0;
      p.out2 = out2.defined() ? args.write(out2) : 0;
    } else {
      states = at::empty({plan.state_bytes * pass.chunks * layout.n_out}, self.options().dtype(at::kByte));
      p.out_ = args.write(states);
    }
    const ReduceSpec spec{.in_dtype = problem.in,
                          .out_dtype = problem.result,
                          .op = static_cast<int>(r.op),
                          .pass = static_cast<int>(pass.step),
                          .needs_u64 = plan.needs_u64,
                          .finds_minimum = r.minimum,
                          .local = pass.local};
    launch(stream, kernel::reduce(plan.arithmetic, state_axis(r.kind), pass.by_workgroup ? 1 : 0), spec, p, args,
           pass.grid);
    from = std::move(states);
  }
}

void launch_plan(const char* name, const ReductionProblem& problem, const ReductionPlan& plan, const at::Tensor& self,
                 const at::Tensor& out, const at::Tensor& out2) {
  const ReduceLayout& layout = plan.layout;
  if (const auto* columns = std::get_if<ColumnSumPlan>(&plan.kernels)) {
    const double scale = problem.reduction.op == ReduceOp::mean ? 1.0 / static_cast<double>(layout.n_red) : 1.0;
    column_sum(name, *columns, self, layout.n_red, layout.n_out, scale, out);
  } else {
    launch_passes(problem, layout, std::get<ReducePlan>(plan.kernels), self, out, out2);
  }
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
  const bool adds = reduction.op == ReduceOp::sum || reduction.op == ReduceOp::mean || reduction.op == ReduceOp::prod;
  TORCH_CHECK_NOT_IMPLEMENTED(adds || !self.is_complex(), name, ": not implemented for ", self.scalar_type(),
                              " on device aule");
  if (first.numel() == 0) return;
  // Both results share one set of output strides.
  if (out.defined() && out2.defined() && out.strides() != out2.strides()) {
    at::Tensor dense = at::empty(out.sizes(), out.options()), dense2 = at::empty(out2.sizes(), out2.options());
    run_reduction(name, reduction, self, mask, dense, dense2);
    out.copy_(dense);
    out2.copy_(dense2);
    return;
  }
  const ReductionProblem problem = problem_of(name, reduction, self, mask, out, first);
  const auto kernel = kernel::reduce(arithmetic_of(problem), state_axis(reduction.kind), 0);
  TORCH_CHECK_NOT_IMPLEMENTED(supports(self.device().index(), kernel.id), name,
                              ": this device has no float64 arithmetic");
  if (const auto plan = reduction_plan(profile_of(self), problem)) {
    launch_plan(name, problem, *plan, self, out, out2);
    return;
  }
  // With too many dimensions for the kernel, a copy has the reduced ones last, as one dimension, and so do the outputs.
  std::vector<int64_t> order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (!mask[d]) order.push_back(d);
  for (int64_t d = 0; d < self.dim(); ++d)
    if (mask[d]) order.push_back(d);
  const at::Tensor rows = self.permute(order).contiguous().reshape({first.numel(), self.numel() / first.numel()});
  DimMask last;
  last.set(1);
  const at::Tensor dense = out.defined() ? at::empty({first.numel()}, out.options()) : at::Tensor();
  const at::Tensor dense2 = out2.defined() ? at::empty({first.numel()}, out2.options()) : at::Tensor();
  run_reduction(name, reduction, rows, last, dense, dense2);
  if (out.defined()) out.copy_(dense.view(out.sizes()));
  if (out2.defined()) out2.copy_(dense2.view(out2.sizes()));
}

}  // namespace aule::ops
