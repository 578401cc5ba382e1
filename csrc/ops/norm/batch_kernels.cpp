#include "ops/norm/batch_kernels.h"

#include <ATen/ops/empty.h>

#include <bit>

#include "kernels_norm.gen.h"
#include "ops/norm/rowwise_launch.h"
#include "ops/reduce/run.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

bool is_wider(const at::Tensor& t, at::ScalarType type) {
  return t.scalar_type() == at::kDouble && type != at::kDouble;
}

void check_channels(const char* name, const char* what, const at::Tensor& t, int64_t channels) {
  TORCH_CHECK(t.numel() == channels, name, ": expected ", what, " of ", channels, " elements, but got ", t.sizes());
}

uint64_t bits_of(double value, at::ScalarType type) {
  return type == at::kDouble ? std::bit_cast<uint64_t>(value)
                             : uint64_t{std::bit_cast<uint32_t>(static_cast<float>(value))};
}

// A running statistic as the kernel updates it: a copy if it is not contiguous or too wide, which is then copied back.
class Running {
 public:
  Running(const char* name, const char* what, const OptionalTensor& t, const BatchStats& stats) {
    if (!is_given(t)) return;
    to_ = *t;
    const auto type = stats.mean.scalar_type();
    check_channels(name, what, to_, stats.mean.size(-1));
    updated_ = (is_wider(to_, type) ? to_.to(type) : to_).contiguous();
  }
  const at::Tensor& updated() const { return updated_; }
  void copy_back() const {
    if (to_.defined() && !updated_.is_same(to_)) to_.copy_(updated_.view(to_.sizes()));
  }

 private:
  at::Tensor to_, updated_;
};

}  // namespace

BatchShape batch_shape(const char* name, const at::Tensor& input) {
  check_floating(name, input);
  TORCH_CHECK(input.dim() >= 2, name, ": expected an input of at least 2 dimensions, but got ", input.dim());
  BatchShape s{.samples = input.size(0), .channels = input.size(1), .format = input.suggest_memory_format()};
  for (int64_t d = 2; d < input.dim(); ++d) s.hw *= input.size(d);
  if (s.format != at::MemoryFormat::Contiguous) {
    s.samples *= s.hw;
    s.hw = 1;
  }
  return s;
}

at::Tensor dense_batch(const BatchShape& s, const at::Tensor& t) {
  const at::Tensor dense = t.contiguous(s.format);
  if (s.format == at::MemoryFormat::Contiguous) return dense;
  return dense.movedim(1, -1).view({s.samples, s.channels});
}

at::Tensor empty_batch(const BatchShape& s, const at::Tensor& input) {
  return at::empty(input.sizes(), input.options(), s.format);
}

bool is_given(const OptionalTensor& t) { return t.has_value() && t->defined(); }

at::Tensor empty_channels(const BatchShape& s, const at::Tensor& input, at::ScalarType type) {
  return at::empty({s.channels}, input.options().dtype(type));
}

at::Tensor statistic(const char* name, const char* what, const OptionalTensor& t, at::ScalarType type,
                     int64_t channels) {
  if (!is_given(t)) return {};
  check_channels(name, what, *t, channels);
  return t->to(type).contiguous();
}

at::Tensor parameter(const char* name, const char* what, const OptionalTensor& t, at::ScalarType type,
                     int64_t channels) {
  if (!is_given(t)) return {};
  check_channels(name, what, *t, channels);
  return (is_wider(*t, type) ? t->to(type) : *t).contiguous();
}

void batch_moments(const char* name, ReduceOp op, double eps, const at::Tensor& x, const at::Tensor& spread,
                   const at::Tensor& mean) {
  DimMask others;
  others.set();
  others.reset(1);
  run_reduction(name, {op, ReduceKind::moments, static_cast<float>(eps), false}, x, others, spread, mean);
}

void combine_statistics(const char* name, const BatchStats& s) {
  const int64_t channels = s.mean.size(-1), parts = s.mean.numel() / std::max<int64_t>(channels, 1);
  if (channels == 0) return;
  const auto type = s.mean.scalar_type();
  check_walk(name, profile_of(s.mean), parts);
  const Running running_mean(name, "a running_mean", s.running_mean, s);
  const Running running_var(name, "a running_var", s.running_var, s);
  const at::Tensor &m = running_mean.updated(), &v = running_var.updated();
  check_same_device(name, {&s.mean, &s.spread, &s.counts, &m, &v});
  TensorArgs args;
  BatchNormStatsParams p{};
  p.mean = args.read(s.mean);
  p.spread = args.read(s.spread);
  if (s.counts.defined()) p.counts = args.read(s.counts);
  if (s.mean_out.defined()) p.mean_out = args.write(s.mean_out);
  if (s.invstd_out.defined()) p.invstd_out = args.write(s.invstd_out);
  if (m.defined()) p.running_mean = args.read_write(m);
  if (v.defined()) p.running_var = args.read_write(v);
  p.count = static_cast<uint64_t>(s.count);
  p.eps_bits = bits_of(s.eps, type);
  p.momentum_bits = bits_of(s.momentum, type);
  p.channels = static_cast<uint32_t>(channels);
  p.parts = static_cast<uint32_t>(parts);
  constexpr int kLocal = 64;
  const BatchNormStatsSpec spec{.from_variance = s.from_variance,
                                .has_counts = s.counts.defined(),
                                .has_running_mean = m.defined(),
                                .has_running_var = v.defined(),
                                .wants_mean = s.mean_out.defined(),
                                .wants_invstd = s.invstd_out.defined(),
                                .count_dtype = dtype_or_float(s.counts, name),
                                .running_mean_dtype = dtype_or_float(m, name),
                                .running_var_dtype = dtype_or_float(v, name),
                                .local = kLocal};
  launch(current(s.mean), kernel::batch_norm_stats(compute_type(dtype_of(s.mean, name))), spec, p, args,
         linear_grid(ceil_div(channels, kLocal)));
  running_mean.copy_back();
  running_var.copy_back();
}

void batch_elements(const char* name, const BatchShape& s, const BatchElements& v, const at::Tensor& out) {
  if (out.numel() == 0) return;
  BatchNormProblem problem{.numel = static_cast<uint64_t>(out.numel()),
                           .channels = s.channels,
                           .hw = s.hw,
                           .x = row_operand(v.x, name),
                           .out = row_operand(out, name),
                           .grad = optional_operand(v.grad, name)};
  TensorArgs args;
  BatchNormParams p{};
  const auto of_channels = [&](const at::Tensor& t) -> uint64_t {
    if (!t.defined()) return 0;
    problem.of_channels.push_back(row_operand(t, name));
    return args.read(t);
  };
  p.x = args.read(v.x);
  if (v.grad.defined()) p.grad = args.read(v.grad);
  p.out_ = args.write(out);
  p.mean = of_channels(v.mean);
  p.invstd = of_channels(v.invstd);
  p.w = of_channels(v.w);
  p.b = of_channels(v.b);
  p.sum_g = of_channels(v.sum_g);
  p.sum_gh = of_channels(v.sum_gh);
  if (v.counts.defined()) {
    p.counts = args.read(v.counts);
    p.parts = static_cast<uint32_t>(v.counts.numel());
  }
  p.numel = problem.numel;
  p.count = static_cast<uint64_t>(s.count());
  p.channels = static_cast<uint32_t>(s.channels);
  p.hw = static_cast<uint32_t>(s.hw);
  const BatchNormPlan plan = batch_norm_plan(problem);
  const BatchNormSpec spec{.x_dtype = problem.x.dtype,
                           .out_dtype = problem.out.dtype,
                           .g_dtype = problem.grad ? problem.grad->dtype : problem.x.dtype,
                           .w_dtype = dtype_or_float(v.w, name),
                           .b_dtype = dtype_or_float(v.b, name),
                           .mode = static_cast<int>(v.mode),
                           .has_weight = v.w.defined(),
                           .has_bias = v.b.defined(),
                           .vec = static_cast<int>(plan.vec),
                           .rows = plan.rows,
                           .local = static_cast<int>(plan.local)};
  launch(current(v.x), kernel::batch_norm(compute_type(problem.x.dtype)), spec, p, args, plan.grid);
}

void sum_channels(const char* name, const BatchShape& s, const at::Tensor& grad, const at::Tensor& x,
                  const at::Tensor& mean, const at::Tensor& invstd, const PartSums& sums) {
  const int64_t hw = std::max<int64_t>(s.hw, 1);
  add_param_sums(name, {s.channels, s.count(), hw, s.channels * hw, hw, 0, 1}, grad, x, mean, invstd, sums);
}

}  // namespace aule::ops
