#include "ops/norm/norm.h"

#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "kernels_norm.gen.h"
#include "ops/norm/long_rows.h"
#include "ops/norm/params.h"
#include "ops/norm/persistent.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Rows = NormRows;

at::Tensor dense(const OptionalTensor& t) { return t.has_value() && t->defined() ? t->contiguous() : at::Tensor(); }

// Both rowwise kernels have these.
template <class Params>
void set_sizes(Params& p, const Rows& s) {
  p.rows = s.rows;
  p.n = static_cast<uint32_t>(s.n);
  p.hw = static_cast<uint32_t>(s.hw);
  p.groups = static_cast<uint32_t>(s.groups);
  p.channels = static_cast<uint32_t>(s.channels);
}

void rowwise_forward(const NormForwardProblem& problem, const RowwisePlan& plan, const at::Tensor& x,
                     const at::Tensor& w, const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                     const at::Tensor& rstd) {
  TensorArgs args;
  NormFwdParams p{};
  p.x = args.read(x);
  p.y = args.write(y);
  if (w.defined()) p.w = args.read(w);
  if (b.defined()) p.b = args.read(b);
  if (mean.defined()) p.mean = args.write(mean);
  p.rstd = args.write(rstd);
  set_sizes(p, problem.rows);
  p.eps = static_cast<float>(eps);
  NormFwdSpec spec{.x_dtype = problem.x.dtype,
                   .y_dtype = problem.y.dtype,
                   .w_dtype = dtype_or_float(problem.w),
                   .b_dtype = dtype_or_float(problem.b),
                   .is_rms = problem.rows.is_rms,
                   .per_channel = problem.rows.channels != 0,
                   .has_weight = w.defined(),
                   .has_bias = b.defined()};
  set_rows(spec, plan);
  launch(current(x), kernel::norm_fwd(compute_type(problem.x.dtype), static_cast<int>(plan.owner)), spec, p, args,
         plan.grid);
}

void forward(const char* name, const Rows& s, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps,
             const at::Tensor& y, const at::Tensor& mean, const at::Tensor& rstd) {
  if (s.rows == 0) return;
  if (s.n == 0) {  // the mean of nothing
    if (mean.defined()) mean.fill_(std::numeric_limits<double>::quiet_NaN());
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  TORCH_CHECK(s.n <= 0xffffffffll, name, ": expected fewer than 2^32 elements per row, but got ", s.n);
  const NormForwardProblem problem{.rows = s,
                                   .x = row_operand(x, name),
                                   .y = row_operand(y, name),
                                   .w = optional_operand(w, name),
                                   .b = optional_operand(b, name)};
  const NormForwardPlan plan = norm_forward_plan(profile_of(x), problem);
  if (const auto* persistent = std::get_if<PersistentPlan>(&plan)) {
    norm_forward_persistent(problem, *persistent, x, w, b, eps, y, mean, rstd);
  } else if (const auto* rowwise = std::get_if<RowwisePlan>(&plan)) {
    rowwise_forward(problem, *rowwise, x, w, b, eps, y, mean, rstd);
  } else {
    long_norm_forward(name, s, x, w, b, eps, y, mean, rstd);
  }
}

void rowwise_backward(const NormBackwardProblem& problem, const RowwisePlan& plan, const at::Tensor& grad,
                      const at::Tensor& x, const at::Tensor& w, const at::Tensor& mean, const at::Tensor& rstd,
                      const at::Tensor& dx) {
  TensorArgs args;
  NormBwdParams p{};
  p.grad = args.read(grad);
  p.x = args.read(x);
  if (w.defined()) p.w = args.read(w);
  if (mean.defined()) p.mean = args.read(mean);
  p.rstd = args.read(rstd);
  p.out_ = args.write(dx);
  set_sizes(p, problem.rows);
  NormBwdSpec spec{.g_dtype = problem.grad.dtype,
                   .x_dtype = problem.x.dtype,
                   .out_dtype = problem.dx->dtype,
                   .w_dtype = dtype_or_float(problem.w),
                   .is_rms = problem.rows.is_rms,
                   .per_channel = problem.rows.channels != 0,
                   .has_weight = w.defined()};
  set_rows(spec, plan);
  launch(current(x), kernel::norm_bwd(compute_type(problem.x.dtype), static_cast<int>(plan.owner)), spec, p, args,
         plan.grid);
}

// Computes those of `dx`, `dw` and `db` that are defined. `sums` says which elements share a parameter.
void backward(const char* name, const Rows& s, const ParamSums& sums, const at::Tensor& grad, const at::Tensor& x,
              const at::Tensor& w, const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx,
              const at::Tensor& dw, const at::Tensor& db) {
  const NormBackwardProblem problem{.rows = s,
                                    .grad = row_operand(grad, name),
                                    .x = row_operand(x, name),
                                    .w = optional_operand(w, name),
                                    .dx = optional_operand(dx, name)};
  const NormBackwardPlan plan = norm_backward_plan(profile_of(x), problem);
  if (const auto* persistent = std::get_if<PersistentBackwardPlan>(&plan)) {
    norm_backward_persistent(name, problem, *persistent, grad, x, w, mean, rstd, dx, dw, db);
    return;
  }
  if (const auto* rowwise = std::get_if<RowwisePlan>(&plan))
    rowwise_backward(problem, *rowwise, grad, x, w, mean, rstd, dx);
  else if (std::holds_alternative<LongRowsPlan>(plan))
    long_norm_backward(s, grad, x, w, mean, rstd, dx);
  sum_param_grads(name, sums, grad, x, mean, rstd, dw, db);
}

// [..., 1, 1]: the shape of the saved statistics.
std::vector<int64_t> stat_shape(const at::Tensor& x, at::IntArrayRef normalized_shape) {
  std::vector<int64_t> shape = x.sizes().vec();
  for (size_t i = shape.size() - normalized_shape.size(); i < shape.size(); ++i) shape[i] = 1;
  return shape;
}

at::Tensor param_grad(bool wanted, const at::Tensor& param, at::IntArrayRef shape, const at::Tensor& grad) {
  if (!wanted) return {};
  return at::empty(shape, param.defined() ? param.options().memory_format(std::nullopt) : grad.options());
}

Rows rows_of(const at::Tensor& input, at::IntArrayRef normalized_shape) {
  Rows s{1, 1};
  const int64_t axis = input.dim() - static_cast<int64_t>(normalized_shape.size());
  for (int64_t d = 0; d < input.dim(); ++d) (d < axis ? s.rows : s.n) *= input.size(d);
  return s;
}

// Parameters that belong to the elements of a row.
ParamSums sums_over_rows(const Rows& s) { return {s.n, s.rows, 1, s.n, 1, 1, std::max<int64_t>(s.n, 1)}; }

}  // namespace

ThreeTensors native_layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps) {
  const at::Tensor w = dense(weight), b = dense(bias);
  check_same_device("native_layer_norm", {&input, &w, &b});
  check_floating("native_layer_norm", input);
  at::native::_check_layer_norm_inputs(input, normalized_shape, w, b);
  const at::Tensor x = input.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const auto stats = x.options().dtype(stat_type(x));
  at::Tensor mean = at::empty(stat_shape(x, normalized_shape), stats), rstd = at::empty(mean.sizes(), stats);
  forward("native_layer_norm", rows_of(x, normalized_shape), x, w, b, eps, y, mean, rstd);
  return {y, mean, rstd};
}

ThreeTensors native_layer_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                        at::IntArrayRef normalized_shape, const at::Tensor& mean,
                                        const at::Tensor& rstd, const OptionalTensor& weight,
                                        const OptionalTensor& bias, std::array<bool, 3> mask) {
  constexpr const char* kName = "native_layer_norm_backward";
  const at::Tensor w = dense(weight), b = dense(bias);
  check_same_device(kName, {&grad, &input, &mean, &rstd, &w, &b});
  at::native::_check_layer_norm_inputs(input, normalized_shape, w, b);
  const at::Tensor x = input.contiguous(), g = grad.contiguous();
  const at::Tensor m = mean.to(stat_type(x)).contiguous(), r = rstd.to(stat_type(x)).contiguous();
  const Rows s = rows_of(x, normalized_shape);
  at::Tensor dx;
  if (mask[0]) dx = at::empty(x.sizes(), x.options());
  at::Tensor dw = param_grad(mask[1], w, normalized_shape, g), db = param_grad(mask[2], b, normalized_shape, g);
  backward(kName, s, sums_over_rows(s), g, x, w, m, r, dx, dw, db);
  return {dx, dw, db};
}

std::tuple<at::Tensor, at::Tensor> fused_rms_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                  const OptionalTensor& weight, std::optional<double> eps) {
  const at::Tensor w = dense(weight);
  check_same_device("_fused_rms_norm", {&input, &w});
  check_floating("_fused_rms_norm", input);
  at::native::_check_rms_norm_inputs_symint(input, c10::fromIntArrayRefSlow(normalized_shape), w);
  const at::Tensor x = input.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  at::Tensor rstd = at::empty(stat_shape(x, normalized_shape), x.options().dtype(stat_type(x)));
  Rows s = rows_of(x, normalized_shape);
  s.is_rms = true;
  const double smallest =
      x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  forward("_fused_rms_norm", s, x, w, {}, eps.value_or(smallest), y, {}, rstd);
  return {y, rstd};
}

std::tuple<at::Tensor, at::Tensor> fused_rms_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                                           at::IntArrayRef normalized_shape, const at::Tensor& rstd,
                                                           const OptionalTensor& weight, std::array<bool, 2> mask) {
  constexpr const char* kName = "_fused_rms_norm_backward";
  const at::Tensor w = dense(weight);
  check_same_device(kName, {&grad, &input, &rstd, &w});
  const at::Tensor x = input.contiguous(), g = grad.contiguous(), r = rstd.to(stat_type(x)).contiguous();
  Rows s = rows_of(x, normalized_shape);
  s.is_rms = true;
  at::Tensor dx;
  if (mask[0]) dx = at::empty(x.sizes(), x.options());
  at::Tensor dw = param_grad(mask[1] && w.defined(), w, normalized_shape, g);
  backward(kName, s, sums_over_rows(s), g, x, w, {}, r, dx, dw, {});
  return {dx, dw};
}

ThreeTensors native_group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               int64_t n, int64_t c, int64_t hw, int64_t group, double eps) {
  constexpr const char* kName = "native_group_norm";
  const at::Tensor w = dense(weight), b = dense(bias);
  check_same_device(kName, {&input, &w, &b});
  check_floating(kName, input);
  TORCH_CHECK(group > 0 && c % group == 0, kName,
              ": expected the number of channels to be divisible by the number of "
              "groups, but got ",
              c, " channels and ", group, " groups");
  TORCH_CHECK(input.numel() == n * c * hw, kName, ": expected ", n * c * hw, " elements, but got ", input.numel());
  TORCH_CHECK(!w.defined() || w.numel() == c, kName, ": expected a weight of ", c, " elements, but got ", w.sizes());
  TORCH_CHECK(!b.defined() || b.numel() == c, kName, ": expected a bias of ", c, " elements, but got ", b.sizes());
  const at::Tensor x = input.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const auto stats = x.options().dtype(stat_type(x));
  at::Tensor mean = at::empty({n, group}, stats), rstd = at::empty({n, group}, stats);
  forward(kName, {n * group, c / group * hw, std::max<int64_t>(hw, 1), group, c / group}, x, w, b, eps, y, mean, rstd);
  return {y, mean, rstd};
}

ThreeTensors native_group_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                                        const at::Tensor& rstd, const OptionalTensor& weight, int64_t n, int64_t c,
                                        int64_t hw, int64_t group, std::array<bool, 3> mask) {
  constexpr const char* kName = "native_group_norm_backward";
  const at::Tensor w = dense(weight);
  check_same_device(kName, {&grad, &input, &mean, &rstd, &w});
  const at::Tensor x = input.contiguous(), g = grad.contiguous();
  const at::Tensor m = mean.to(stat_type(x)).contiguous(), r = rstd.to(stat_type(x)).contiguous();
  at::Tensor dx;
  if (mask[0]) dx = at::empty(x.sizes(), x.options());
  at::Tensor dw = param_grad(mask[1], w, {c}, g), db = param_grad(mask[2], w, {c}, g);
  const int64_t hop = std::max<int64_t>(hw, 1), channels = c / group;
  const Rows rows{n * group, channels * hw, hop, group, channels};
  backward(kName, rows, {c, n * hw, hop, c * hw, hw, group, channels}, g, x, w, m, r, dx, dw, db);
  return {dx, dw, db};
}

}  // namespace aule::ops
