#include "ops/optim/optim.h"

#include <ATen/ops/empty_like.h>

#include <cmath>

#include "kernels_optim.gen.h"
#include "ops/optim/plan.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/table.h"

namespace aule::ops {
namespace {

struct LearningRate {
  double value = 0;
  const Tensor* tensor = nullptr;  // on the device
};

LearningRate rate_of(const Tensor& lr, const char* op) {
  TORCH_CHECK(lr.numel() == 1, op, ": expected lr to be one number, got a tensor of ", lr.numel(), " elements");
  if (lr.device().is_cpu()) return {lr.item().toDouble(), nullptr};
  TORCH_CHECK(lr.is_floating_point(), op, ": expected lr on ", lr.device(), " to be a floating point number, got ",
              lr.scalar_type());
  return {0, &lr};
}

// Common parts of Adam, SGD and Adagrad: scalars on the tensors' device, and lists that must match the parameters.
struct Common {
  const char* op;
  TensorList params, grads;
  LearningRate lr;
  const OptionalTensor &grad_scale, &found_inf;
  std::vector<Tensor> dense_grads;  // gradients in the memory order of their parameters

  Common(const char* name, TensorList self, TensorList gradients, LearningRate rate, const OptionalTensor& scale,
         const OptionalTensor& inf)
      : op(name), params(self), grads(gradients), lr(rate), grad_scale(scale), found_inf(inf) {
    TORCH_CHECK(params.size() == grads.size(), op, ": expected as many gradients as parameters, got ", grads.size(),
                " and ", params.size());
    dense_grads.reserve(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor &w = params[i], &g = grads[i];
      check_same_device(op, {&w, &g});
      check_float64(op, w);
      TORCH_CHECK(walks_dense(w), op, ": parameter ", i, " of sizes ", w.sizes(), " and strides ", w.strides(),
                  " is not dense");
      dense_grads.push_back(
          same_walk(w, g) ? g : at::empty_like(w, g.options().memory_format(at::MemoryFormat::Preserve)).copy_(g));
    }
    for (const OptionalTensor* flag : {&grad_scale, &found_inf})
      TORCH_CHECK(
          !*flag || !(*flag)->defined() || ((*flag)->scalar_type() == at::kFloat && !(*flag)->device().is_cpu()), op,
          ": expected grad_scale and found_inf to be float32 on the parameters' device");
  }
  void check_state(const Tensor& state, size_t i, const char* what) const {
    check_same_device(op, {&params[i], &state});
    TORCH_CHECK(same_walk(params[i], state), op, ": expected ", what, " ", i,
                " to have the parameter's sizes and strides");
    check_float64(op, state);
  }
  // Each list has one dtype, and all lists of states the same.
  void check_dtypes(std::initializer_list<TensorList> states) const {
    const auto check = [&](TensorList list, c10::ScalarType type) {
      for (const Tensor& t : list) TORCH_CHECK(t.scalar_type() == type, op, ": expected one dtype per list");
    };
    check(params, params[0].scalar_type());
    check(grads, grads[0].scalar_type());
    for (TensorList list : states) check(list, states.begin()->front().scalar_type());
  }
  void check_steps(TensorList steps) const {
    for (size_t i = 0; i < steps.size(); ++i)
      TORCH_CHECK(steps[i].scalar_type() == at::kFloat && steps[i].device() == params[i].device(), op,
                  ": expected state_steps to be float32 on ", params[i].device());
  }
  bool unscales() const { return grad_scale && grad_scale->defined(); }
  // Entry `at` of a table is parameter i.
  template <class Params>
  void fill(Params& p, TensorArgs& args, uint32_t at, size_t i) const {
    if (at == 0) fill_scalars(p, args);
    p.param[at] = args.read_write(params[i]);
    p.grad[at] = unscales() ? args.read_write(dense_grads[i]) : args.read(dense_grads[i]);
  }
  template <class Params>
  void fill_scalars(Params& p, TensorArgs& args) const {
    if (lr.tensor) p.lr_address = args.read(*lr.tensor);
    if (unscales()) p.grad_scale = args.read(*grad_scale);
    if (found_inf && found_inf->defined()) p.found_inf = args.read(*found_inf);
  }
  // The caller sees unscaled gradients, as with PyTorch's own kernels.
  void finish() const {
    if (!unscales()) return;
    for (size_t i = 0; i < grads.size(); ++i)
      if (!dense_grads[i].is_same(grads[i])) grads[i].copy_(dense_grads[i]);
  }
  // float64 where one of the lists is.
  DType compute(c10::ScalarType state) const {
    const bool in_double =
        params[0].scalar_type() == at::kDouble || grads[0].scalar_type() == at::kDouble || state == at::kDouble;
    TORCH_CHECK_NOT_IMPLEMENTED(in_double || rate_dtype() != DType::f64, op, ": float64 lr on ", lr.tensor->device(),
                                " for parameters of ", params[0].scalar_type());
    return in_double ? DType::f64 : DType::f32;
  }
  DType rate_dtype() const { return lr.tensor ? dtype_of(*lr.tensor, op) : DType::f32; }
};

bool aligned_table(const FusedAdamParams& p) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < p.tensors; ++i)
    bits |= p.param[i] | p.grad[i] | p.exp_avg[i] | p.exp_avg_sq[i] | p.max_exp_avg_sq[i];
  return bits % 16 == 0;
}

const char* adam_name(bool decoupled) { return decoupled ? "_fused_adamw_" : "_fused_adam_"; }

void fused_adam(bool decoupled, const char* op, TensorList self, TensorList grads, TensorList exp_avgs,
                TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, TensorList state_steps, LearningRate lr,
                double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return;
  const Common common(op, self, grads, lr, grad_scale, found_inf);
  TORCH_CHECK(exp_avgs.size() == self.size() && exp_avg_sqs.size() == self.size() &&
                  state_steps.size() == self.size() && (!amsgrad || max_exp_avg_sqs.size() == self.size()),
              op, ": expected state lists as long as the list of parameters");
  const c10::ScalarType type = self[0].scalar_type(), grad_type = grads[0].scalar_type(),
                        state_type = exp_avgs[0].scalar_type();
  for (size_t i = 0; i < self.size(); ++i) {
    common.check_state(exp_avgs[i], i, "exp_avgs");
    common.check_state(exp_avg_sqs[i], i, "exp_avg_sqs");
    if (amsgrad) common.check_state(max_exp_avg_sqs[i], i, "max_exp_avg_sqs");
  }
  common.check_steps(state_steps);
  common.check_dtypes({exp_avgs, exp_avg_sqs});
  const bool vec16b = adam_uses_vec16b(profile_of(self[0]));
  for (c10::ScalarType t : {type, grad_type, state_type})
    TORCH_CHECK(c10::isFloatingType(t), op, ": expected floating point tensors, but got ", t);
  const DType compute = common.compute(state_type);
  FusedAdamParams base{};
  base.lr = real_bits(compute, lr.value);
  base.log_beta1 = real_bits(compute, std::log(beta1));
  base.log_beta2 = real_bits(compute, std::log(beta2));
  base.one_minus_beta1 = real_bits(compute, 1 - beta1);
  base.one_minus_beta2 = real_bits(compute, 1 - beta2);
  base.weight_decay = real_bits(compute, weight_decay);
  base.eps = real_bits(compute, eps);
  const FusedAdamSpec spec{.param_dtype = dtype_of(type, op),
                           .grad_dtype = dtype_of(grad_type, op),
                           .state_dtype = dtype_of(state_type, op),
                           .adamw = decoupled,
                           .amsgrad = amsgrad,
                           .maximize = maximize,
                           .lr_dtype = common.rate_dtype(),
                           .unscale = common.unscales()};
  for_each_table(
      self, base,
      [&](FusedAdamParams& p, TensorArgs& args, uint32_t at, size_t i) {
        common.fill(p, args, at, i);
        p.exp_avg[at] = args.read_write(exp_avgs[i]);
        p.exp_avg_sq[at] = args.read_write(exp_avg_sqs[i]);
        if (amsgrad) p.max_exp_avg_sq[at] = args.read_write(max_exp_avg_sqs[i]);
        p.state_step[at] = args.read(state_steps[i]);
      },
      [&](const FusedAdamParams& p, const TensorArgs& args, Grid grid) {
        FusedAdamSpec now = spec;
        now.vec = compute == DType::f32 && vec16b && aligned_table(p);
        launch(current(self[0]), kernel::fused_adam(compute), now, p, args, grid);
      });
  common.finish();
}

void fused_sgd(const char* op, TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay,
               double momentum, LearningRate lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
               const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return;
  const Common common(op, self, grads, lr, grad_scale, found_inf);
  const bool has_momentum = !momentum_buffer_list.empty();
  TORCH_CHECK(!has_momentum || momentum_buffer_list.size() == self.size(), op,
              ": expected as many momentum buffers as parameters");
  const c10::ScalarType type = self[0].scalar_type(), grad_type = grads[0].scalar_type();
  const c10::ScalarType state_type = has_momentum ? momentum_buffer_list[0].scalar_type() : type;
  for (size_t i = 0; i < momentum_buffer_list.size(); ++i)
    common.check_state(momentum_buffer_list[i], i, "momentum_buffer_list");
  if (has_momentum)
    common.check_dtypes({momentum_buffer_list});
  else
    common.check_dtypes({});
  const DType compute = common.compute(state_type);
  FusedSgdParams base{};
  base.lr = real_bits(compute, lr.value);
  base.momentum = real_bits(compute, momentum);
  base.one_minus_dampening = real_bits(compute, 1 - dampening);
  base.weight_decay = real_bits(compute, weight_decay);
  const FusedSgdSpec spec{.param_dtype = dtype_of(type, op),
                          .grad_dtype = dtype_of(grad_type, op),
                          .state_dtype = dtype_of(state_type, op),
                          .momentum = has_momentum,
                          .first = is_first_step,
                          .nesterov = nesterov,
                          .maximize = maximize,
                          .lr_dtype = common.rate_dtype(),
                          .unscale = common.unscales()};
  for_each_table(
      self, base,
      [&](FusedSgdParams& p, TensorArgs& args, uint32_t at, size_t i) {
        common.fill(p, args, at, i);
        if (has_momentum) p.momentum_buffer[at] = args.read_write(momentum_buffer_list[i]);
      },
      [&](const FusedSgdParams& p, const TensorArgs& args, Grid grid) {
        launch(current(self[0]), kernel::fused_sgd(compute), spec, p, args, grid);
      });
  common.finish();
}

void fused_adagrad(const char* op, TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps,
                   LearningRate lr, double lr_decay, double weight_decay, double eps, bool maximize,
                   const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return;
  const Common common(op, self, grads, lr, grad_scale, found_inf);
  TORCH_CHECK(state_sums.size() == self.size() && state_steps.size() == self.size(), op,
              ": expected state lists as long as the list of parameters");
  const c10::ScalarType type = self[0].scalar_type(), grad_type = grads[0].scalar_type(),
                        state_type = state_sums[0].scalar_type();
  for (size_t i = 0; i < self.size(); ++i) common.check_state(state_sums[i], i, "state_sums");
  common.check_steps(state_steps);
  common.check_dtypes({state_sums});
  for (c10::ScalarType t : {type, grad_type, state_type})
    TORCH_CHECK(c10::isFloatingType(t), op, ": expected floating point tensors, but got ", t);
  const DType compute = common.compute(state_type);
  FusedAdagradParams base{};
  base.lr = real_bits(compute, lr.value);
  base.lr_decay = real_bits(compute, lr_decay);
  base.weight_decay = real_bits(compute, weight_decay);
  base.eps = real_bits(compute, eps);
  const FusedAdagradSpec spec{.param_dtype = dtype_of(type, op),
                              .grad_dtype = dtype_of(grad_type, op),
                              .state_dtype = dtype_of(state_type, op),
                              .maximize = maximize,
                              .lr_dtype = common.rate_dtype(),
                              .unscale = common.unscales()};
  for_each_table(
      self, base,
      [&](FusedAdagradParams& p, TensorArgs& args, uint32_t at, size_t i) {
        common.fill(p, args, at, i);
        p.state_sum[at] = args.read_write(state_sums[i]);
        p.state_step[at] = args.read(state_steps[i]);
      },
      [&](const FusedAdagradParams& p, const TensorArgs& args, Grid grid) {
        launch(current(self[0]), kernel::fused_adagrad(compute), spec, p, args, grid);
      });
  common.finish();
}

}  // namespace

template <bool decoupled>
void fused_adam_(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                 TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1, double beta2,
                 double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                 const OptionalTensor& found_inf) {
  fused_adam(decoupled, adam_name(decoupled), self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
             {lr, nullptr}, beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}
template <bool decoupled>
void fused_adam_tensor_lr_(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                           TensorList max_exp_avg_sqs, TensorList state_steps, const Tensor& lr, double beta1,
                           double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                           const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  fused_adam(decoupled, adam_name(decoupled), self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
             rate_of(lr, adam_name(decoupled)), beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale,
             found_inf);
}
template decltype(fused_adam_<false>) fused_adam_<false>;
template decltype(fused_adam_<true>) fused_adam_<true>;
template decltype(fused_adam_tensor_lr_<false>) fused_adam_tensor_lr_<false>;
template decltype(fused_adam_tensor_lr_<true>) fused_adam_tensor_lr_<true>;

void fused_sgd_(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay,
                double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  fused_sgd("_fused_sgd_", self, grads, momentum_buffer_list, weight_decay, momentum, {lr, nullptr}, dampening,
            nesterov, maximize, is_first_step, grad_scale, found_inf);
}
void fused_sgd_tensor_lr_(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay,
                          double momentum, const Tensor& lr, double dampening, bool nesterov, bool maximize,
                          bool is_first_step, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  fused_sgd("_fused_sgd_", self, grads, momentum_buffer_list, weight_decay, momentum, rate_of(lr, "_fused_sgd_"),
            dampening, nesterov, maximize, is_first_step, grad_scale, found_inf);
}

void fused_adagrad_(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps, double lr,
                    double lr_decay, double weight_decay, double eps, bool maximize, const OptionalTensor& grad_scale,
                    const OptionalTensor& found_inf) {
  fused_adagrad("_fused_adagrad_", self, grads, state_sums, state_steps, {lr, nullptr}, lr_decay, weight_decay, eps,
                maximize, grad_scale, found_inf);
}
void fused_adagrad_tensor_lr_(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps,
                              const Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
                              const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  fused_adagrad("_fused_adagrad_", self, grads, state_sums, state_steps, rate_of(lr, "_fused_adagrad_"), lr_decay,
                weight_decay, eps, maximize, grad_scale, found_inf);
}

}  // namespace aule::ops
