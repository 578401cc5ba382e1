#include "ops/norm/softmax.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sum.h>
#include <ATen/WrapDimUtils.h>

#include <limits>

#include "kernels_norm.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Slices {
  uint64_t rows, n, inner;
};

Slices slices_of(const at::Tensor& t, int64_t dim) {
  if (t.dim() == 0) return {1, 1, 1};
  dim = at::maybe_wrap_dim(dim, t.dim());
  uint64_t inner = 1;
  for (int64_t d = dim + 1; d < t.dim(); ++d) inner *= t.size(d);
  const uint64_t n = t.size(dim);
  TORCH_CHECK(n <= 0xffffffffu && inner <= 0xffffffffu, "softmax: expected sizes below 2^32, but got ", t.sizes());
  return {n == 0 ? 0 : t.numel() / n, n, inner};
}

// The kernels take contiguous tensors. Others are copied, and a strided `out` is written through a temporary.
at::Tensor dense_like(const at::Tensor& out) {
  return out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
}

at::ScalarType tensor_type(DType arithmetic) { return arithmetic == DType::f64 ? at::kDouble : at::kFloat; }

// For rows that are too long for one invocation: reductions, which split a row, and pointwise kernels.
void long_forward(const at::Tensor& self, int64_t dim, bool log, bool safe, DType c, const at::Tensor& out) {
  const at::Tensor x = self.to(tensor_type(c));
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  at::Tensor top = at::amax(x, {dim}, /*keepdim=*/true);
  top.masked_fill_(top.eq(kLowest), 0);  // a row of -inf only: no inf - inf
  at::Tensor y = x.sub(top);
  if (log) {
    y.sub_(y.exp().sum({dim}, /*keepdim=*/true).log_());
  } else {
    at::Tensor sum = y.exp_().sum({dim}, /*keepdim=*/true);
    if (safe) sum.masked_fill_(sum.eq(0), 1);
    y.div_(sum);
  }
  out.copy_(y);
}

void long_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim, bool log, DType c,
                   const at::Tensor& out) {
  const at::Tensor g = grad.to(tensor_type(c)), y = output.to(tensor_type(c));
  if (log) {
    out.copy_(g.sub(y.exp().mul_(g.sum({dim}, /*keepdim=*/true))));
  } else {
    out.copy_(g.sub(g.mul(y).sum({dim}, /*keepdim=*/true)).mul_(y));
  }
}

SoftmaxProblem problem_of(const char* name, bool is_backward, const Slices& e,
                          std::initializer_list<const at::Tensor*> operands) {
  SoftmaxProblem problem{.is_backward = is_backward, .rows = e.rows, .n = e.n, .inner = e.inner};
  for (const at::Tensor* t : operands) problem.operands.push_back(row_operand(*t, name));
  return problem;
}

// Params and constants that both kernels have.
template <class Params, class Spec>
void launch_rows(const at::Tensor& on, KernelRef<Params, Spec> kernel, const SoftmaxProblem& problem,
                 const RowwisePlan& plan, std::type_identity_t<Params>& p, std::type_identity_t<Spec> spec,
                 const TensorArgs& args) {
  p.rows = problem.rows;
  p.n = static_cast<uint32_t>(problem.n);
  p.inner = static_cast<uint32_t>(problem.inner);
  set_rows(spec, plan);
  launch(current(on), kernel, spec, p, args, plan.grid);
}

void forward(const char* name, const at::Tensor& self, int64_t dim, bool log, bool safe, at::Tensor& out) {
  check_same_device(name, {&self, &out});
  check_floating(name, self);
  check_floating(name, out);
  at::native::resize_output(out, self.sizes());
  const Slices e = slices_of(self, dim);
  if (self.numel() == 0) return;
  const SoftmaxProblem problem = problem_of(name, false, e, {&self, &out});
  const DType c = problem.arithmetic();
  const SoftmaxPlan plan = softmax_plan(profile_of(self), problem);
  const auto* rowwise = std::get_if<RowwisePlan>(&plan);
  if (!rowwise) {
    long_forward(self, dim, log, safe, c, out);
    return;
  }
  const at::Tensor in = self.contiguous(), dense = dense_like(out);
  TensorArgs args;
  SoftmaxParams p{};
  p.in_ = args.read(in);
  p.out_ = args.write(dense);
  const SoftmaxSpec spec{
      .in_dtype = problem.operands[0].dtype, .out_dtype = problem.operands[1].dtype, .is_log = log, .is_safe = safe};
  launch_rows(self, kernel::softmax(c, static_cast<int>(rowwise->owner)), problem, *rowwise, p, spec, args);
  if (!dense.is_same(out)) out.copy_(dense);
}

void backward(const char* name, const at::Tensor& grad, const at::Tensor& output, int64_t dim, bool log,
              at::Tensor& grad_input) {
  check_same_device(name, {&grad, &output, &grad_input});
  check_floating(name, grad);
  check_floating(name, output);
  TORCH_CHECK(grad.sizes() == output.sizes(), name, ": expected grad_output and output of one shape, but got ",
              grad.sizes(), " and ", output.sizes());
  at::native::resize_output(grad_input, grad.sizes());
  const Slices e = slices_of(grad, dim);
  if (grad.numel() == 0) return;
  const SoftmaxProblem problem = problem_of(name, true, e, {&grad, &output, &grad_input});
  const DType c = problem.arithmetic();
  const SoftmaxPlan plan = softmax_plan(profile_of(grad), problem);
  const auto* rowwise = std::get_if<RowwisePlan>(&plan);
  if (!rowwise) {
    long_backward(grad, output, dim, log, c, grad_input);
    return;
  }
  const at::Tensor g = grad.contiguous(), y = output.contiguous(), dense = dense_like(grad_input);
  TensorArgs args;
  SoftmaxBackwardParams p{};
  p.grad = args.read(g);
  p.y = args.read(y);
  p.out_ = args.write(dense);
  const SoftmaxBackwardSpec spec{.g_dtype = problem.operands[0].dtype,
                                 .y_dtype = problem.operands[1].dtype,
                                 .out_dtype = problem.operands[2].dtype,
                                 .is_log = log};
  launch_rows(grad, kernel::softmax_backward(c, static_cast<int>(rowwise->owner)), problem, *rowwise, p, spec, args);
  if (!dense.is_same(grad_input)) grad_input.copy_(dense);
}

}  // namespace

at::Tensor& softmax_out(const at::Tensor& self, int64_t dim, bool, at::Tensor& out) {
  forward("softmax", self, dim, false, false, out);
  return out;
}
at::Tensor& log_softmax_out(const at::Tensor& self, int64_t dim, bool, at::Tensor& out) {
  forward("log_softmax", self, dim, true, false, out);
  return out;
}
at::Tensor& softmax_backward_data_out(const at::Tensor& grad, const at::Tensor& output, int64_t dim, at::ScalarType,
                                      at::Tensor& grad_input) {
  backward("softmax_backward", grad, output, dim, false, grad_input);
  return grad_input;
}
at::Tensor& log_softmax_backward_data_out(const at::Tensor& grad, const at::Tensor& output, int64_t dim, at::ScalarType,
                                          at::Tensor& grad_input) {
  backward("log_softmax_backward", grad, output, dim, true, grad_input);
  return grad_input;
}

at::Tensor safe_softmax(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype) {
  at::Tensor out = at::empty(self.sizes(), self.options().dtype(dtype.value_or(self.scalar_type())));
  forward("_safe_softmax", at::isFloatingType(self.scalar_type()) ? self : self.to(out.scalar_type()), dim, false, true,
          out);
  return out;
}

at::Tensor masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                          std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "_masked_softmax: expected a mask of dtype Bool, but got ",
              mask.scalar_type());
  TORCH_CHECK(mask_type.has_value() && *mask_type >= 0 && *mask_type <= 2,
              "_masked_softmax: expected mask_type 0 (L x L), 1 (B x L) or 2 (the input's shape)");
  at::Tensor wide = mask;
  if (*mask_type != 2) {
    TORCH_CHECK(self.dim() == 4, "_masked_softmax: expected a 4-D input (B, H, L, L), but got ", self.dim(), "-D");
    wide =
        *mask_type == 0 ? mask.view({1, 1, mask.size(0), mask.size(1)}) : mask.view({mask.size(0), 1, 1, mask.size(1)});
  }
  // A row without an unmasked element gives NaN, as in PyTorch's own kernels.
  const at::Tensor filled = self.masked_fill(wide, -std::numeric_limits<double>::infinity());
  at::Tensor out = at::empty(filled.sizes(), filled.options());
  forward("_masked_softmax", filled, dim.value_or(self.dim() - 1), false, false, out);
  return out;
}

at::Tensor masked_softmax_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor&,
                                   std::optional<int64_t> dim) {
  // The output of a masked element is 0, and so is its gradient.
  return at::_softmax_backward_data(grad, output, dim.value_or(output.dim() - 1), output.scalar_type());
}

}  // namespace aule::ops
