#include "ops/norm/batch.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "kernels_norm.gen.h"
#include "ops/norm/params.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/reduce/run.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Extent {
  int64_t samples, channels, hw;
  int64_t count() const { return samples * hw; }
};

Extent extent_of(const char* name, const at::Tensor& x) {
  check_floating(name, x);
  TORCH_CHECK(x.dim() >= 2, name, ": expected an input of at least 2 dimensions, but got ", x.dim());
  Extent e{x.size(0), x.size(1), 1};
  for (int64_t d = 2; d < x.dim(); ++d) e.hw *= x.size(d);
  return e;
}

// Per-channel tensors in the type of the statistics, contiguous.
at::Tensor stat(const OptionalTensor& t, at::ScalarType type) {
  return t.has_value() && t->defined() ? t->to(type).contiguous() : at::Tensor();
}

void check_channels(const char* name, const char* what, const at::Tensor& t, int64_t channels) {
  TORCH_CHECK(!t.defined() || t.numel() == channels, name, ": expected ", what, " of ", channels, " elements, but got ",
              t.sizes());
}

struct Elementwise {
  int mode;  // of batch_norm.comp
  at::Tensor x, grad, mean, invstd, w, b, sum_g, sum_gh;
};

void elementwise(const char* name, const Extent& e, const Elementwise& v, const at::Tensor& out) {
  if (out.numel() == 0) return;
  const BatchNormProblem problem{.numel = static_cast<uint64_t>(out.numel()),
                                 .hw = e.hw,
                                 .x = row_operand(v.x, name),
                                 .out = row_operand(out, name),
                                 .grad = optional_operand(v.grad, name)};
  const BatchNormPlan plan = batch_norm_plan(problem);
  TensorArgs args;
  BatchNormParams p{};
  p.x = args.read(v.x);
  if (v.grad.defined()) p.grad = args.read(v.grad);
  p.out_ = args.write(out);
  p.mean = args.read(v.mean);
  p.invstd = args.read(v.invstd);
  if (v.w.defined()) p.w = args.read(v.w);
  if (v.b.defined()) p.b = args.read(v.b);
  if (v.sum_g.defined()) p.sum_g = args.read(v.sum_g);
  if (v.sum_gh.defined()) p.sum_gh = args.read(v.sum_gh);
  p.numel = problem.numel;
  p.channels = static_cast<uint32_t>(e.channels);
  p.hw = static_cast<uint32_t>(e.hw);
  p.count = static_cast<float>(e.count());
  const BatchNormSpec spec{.x_dtype = problem.x.dtype,
                           .out_dtype = problem.out.dtype,
                           .g_dtype = problem.grad ? problem.grad->dtype : problem.x.dtype,
                           .mode = v.mode,
                           .has_weight = v.w.defined(),
                           .has_bias = v.b.defined(),
                           .vec = plan.vec4 ? 1 : 0,
                           .local = plan.local};
  launch(current(v.x), kernel::batch_norm(compute_type(problem.x.dtype)), spec, p, args, plan.grid);
}

// The result has a channels-last input's layout, although the kernels take a contiguous copy.
at::Tensor in_layout_of(const at::Tensor& y, const at::Tensor& input) {
  const auto format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? y : y.contiguous(format);
}

}  // namespace

ThreeTensors native_batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                               double momentum, double eps) {
  constexpr const char* kName = "native_batch_norm";
  const Extent e = extent_of(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = stat(weight, type), b = stat(bias, type);
  check_same_device(kName, {&input, &w, &b});
  check_channels(kName, "a weight", w, e.channels);
  check_channels(kName, "a bias", b, e.channels);
  const bool running = running_mean.has_value() && running_mean->defined();
  const at::Tensor x = input.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const auto stats = x.options().dtype(type);
  at::Tensor mean, invstd, save_mean, save_invstd;
  if (training) {
    mean = at::empty({e.channels}, stats);
    at::Tensor var = at::empty({e.channels}, stats);
    DimMask others;
    others.set();
    others.reset(1);
    run_reduction(kName, {ReduceOp::var, ReduceKind::moments, 0.0f, false}, x, others, var, mean);
    invstd = var.add(eps).rsqrt_();
    if (running) {
      check_channels(kName, "a running_mean", *running_mean, e.channels);
      running_mean->mul_(1 - momentum).add_(mean, momentum);
    }
    if (running_var.has_value() && running_var->defined()) {
      check_channels(kName, "a running_var", *running_var, e.channels);
      const double count = static_cast<double>(e.count());
      running_var->mul_(1 - momentum).add_(var, momentum * count / (count - 1));
    }
    save_mean = mean;
    save_invstd = invstd;
  } else {
    TORCH_CHECK(running && running_var.has_value() && running_var->defined(), kName,
                ": expected running_mean and running_var to be defined in evaluation mode");
    mean = stat(running_mean, type);
    invstd = stat(running_var, type).add(eps).rsqrt_();
    check_channels(kName, "a running_mean", mean, e.channels);
    check_channels(kName, "a running_var", invstd, e.channels);
    save_mean = at::empty({0}, stats);
    save_invstd = at::empty({0}, stats);
  }
  elementwise(kName, e, {0, x, {}, mean, invstd, w, b, {}, {}}, y);
  return {in_layout_of(y, input), save_mean, save_invstd};
}

ThreeTensors native_batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                     at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum,
                                     double eps) {
  return ops::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

ThreeTensors native_batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& bias, bool training, double momentum, double eps) {
  return ops::native_batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps) {
  auto [y, mean, invstd] =
      ops::native_batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps);
  return {y, mean, invstd, at::empty({0}, input.options().dtype(at::kByte))};
}

ThreeResults native_batch_norm_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                                   double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                                   at::Tensor& save_invstd) {
  auto [y, mean, invstd] =
      ops::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  hand_over(y, out);
  hand_over(mean, save_mean);
  hand_over(invstd, save_invstd);
  return {out, save_mean, save_invstd};
}

ThreeResults native_batch_norm_legit_out(const at::Tensor& input, const OptionalTensor& weight,
                                         const OptionalTensor& bias, at::Tensor& running_mean, at::Tensor& running_var,
                                         bool training, double momentum, double eps, at::Tensor& out,
                                         at::Tensor& save_mean, at::Tensor& save_invstd) {
  return ops::native_batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out,
                                    save_mean, save_invstd);
}

ThreeResults native_batch_norm_no_stats_out(const at::Tensor& input, const OptionalTensor& weight,
                                            const OptionalTensor& bias, bool training, double momentum, double eps,
                                            at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return ops::native_batch_norm_out(input, weight, bias, {}, {}, training, momentum, eps, out, save_mean, save_invstd);
}

ThreeTensors native_batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const OptionalTensor& weight,
                                        const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                        const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                                        double eps, std::array<bool, 3> mask) {
  constexpr const char* kName = "native_batch_norm_backward";
  const Extent e = extent_of(kName, input);
  const at::ScalarType type = stat_type(input);
  const at::Tensor w = stat(weight, type);
  check_same_device(kName, {&grad, &input, &w});
  const at::Tensor x = input.contiguous(), g = grad.contiguous();
  const at::Tensor mean = stat(train ? save_mean : running_mean, type);
  const at::Tensor invstd = train ? stat(save_invstd, type) : stat(running_var, type).add(eps).rsqrt_();
  const auto stats = x.options().dtype(type);
  at::Tensor sum_gh, sum_g, dx;
  if (mask[1] || (mask[0] && train)) sum_gh = at::empty({e.channels}, stats);
  if (mask[2] || (mask[0] && train)) sum_g = at::empty({e.channels}, stats);
  const int64_t hw = std::max<int64_t>(e.hw, 1);
  sum_param_grads(kName, {e.channels, e.count(), hw, e.channels * hw, hw, 0, 1}, g, x, mean, invstd, sum_gh, sum_g);
  if (mask[0]) {
    dx = at::empty(x.sizes(), x.options());
    elementwise(kName, e,
                {train ? 1 : 2, x, g, mean, invstd, w, {}, train ? sum_g : at::Tensor(), train ? sum_gh : at::Tensor()},
                dx);
    dx = in_layout_of(dx, input);
  }
  const at::ScalarType param = weight.has_value() && weight->defined() ? weight->scalar_type() : input.scalar_type();
  return {dx, mask[1] ? sum_gh.to(param) : at::Tensor(), mask[2] ? sum_g.to(param) : at::Tensor()};
}

ThreeTensors batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& save_mean, const OptionalTensor& save_var, bool update,
                                 double eps, std::array<bool, 3> mask, const at::Tensor&) {
  return ops::native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_var, update,
                                         eps, mask);
}

}  // namespace aule::ops
