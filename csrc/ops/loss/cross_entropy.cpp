#include "ops/loss/cross_entropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>

#include "kernels_loss.gen.h"
#include "ops/loss/plan.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Nothing where no kernel takes these arguments, or none fits the device.
std::optional<CrossEntropyPlan> plan_for(const at::Tensor& self, const at::Tensor& target, bool per_row) {
  const auto type = self.scalar_type(), index = target.scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return {};
  if (index != at::kLong && index != at::kInt && index != at::kByte) return {};
  if (self.dim() != 2 || target.dim() != 1 || self.size(0) != target.size(0)) return {};
  if (target.device() != self.device() || !self.is_contiguous() || address_of(self) % 16 != 0) return {};
  const DType dtype = type == at::kFloat ? DType::f32 : type == at::kHalf ? DType::f16 : DType::bf16;
  return cross_entropy_plan(profile_of(self), {dtype, self.size(0), self.size(1), per_row});
}

CrossEntropyPlan checked_plan(const char* op, const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  check_same_device(op, {&self, &target});
  const auto plan = plan_for(self, target, reduction == at::Reduction::None);
  TORCH_CHECK(plan.has_value(), op, ": no kernel serves logits of ", self.scalar_type(), " and shape ", self.sizes(),
              " with targets of ", target.scalar_type(), " and shape ", target.sizes());
  return *plan;
}

}  // namespace

bool cross_entropy_serves(const at::Tensor& self, const at::Tensor& target) {
  return plan_for(self, target, false).has_value();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_fwd(const at::Tensor& self, const at::Tensor& target,
                                                                 int64_t reduction, int64_t ignore_index, bool wide) {
  constexpr const char* kName = "cross_entropy_loss";
  const CrossEntropyPlan plan = checked_plan(kName, self, target, reduction);
  const int64_t rows = self.size(0);
  const auto floats = self.options().dtype(at::kFloat);
  const at::Tensor indices = target.contiguous(), lse = at::empty({rows}, floats);
  auto& stream = current(self);
  const at::Tensor partial = at::empty({plan.groups, 2}, floats);
  {
    TensorArgs args;
    CrossEntropyParams p{};
    p.x = args.read(self);
    p.target = args.read(indices);
    p.lse = args.write(lse);
    p.partial = args.write(partial);
    p.error = error_address(stream);
    p.ignore_index = ignore_index;
    p.rows = static_cast<uint32_t>(rows);
    p.n = static_cast<uint32_t>(self.size(1));
    p.groups = static_cast<uint32_t>(plan.groups);
    p.tag = error_tag(kName);
    launch(stream, kernel::cross_entropy(plan.by_subgroups ? 2 : 1),
           {.dtype = dtype_of(self, kName), .target_dtype = dtype_of(indices, kName), .local = plan.local}, p, args,
           linear_grid(plan.groups));
  }
  const auto type = wide ? at::kFloat : self.scalar_type();
  const at::Tensor total = at::empty({}, floats);
  if (reduction == at::Reduction::None) return {partial.select(1, 0).to(type, false, true), total.zero_(), lse};
  const at::Tensor loss = at::empty({}, floats);
  TensorArgs args;
  NllLossSumParams p{};
  p.partial = args.read(partial);
  p.loss = args.write(loss);
  p.total_weight = args.write(total);
  p.chunks = static_cast<uint32_t>(plan.groups);
  launch(stream, kernel::nll_loss_sum(DType::f32),
         {.dtype = DType::f32, .mean = reduction == at::Reduction::Mean, .local = plan.sum_local}, p, args, Grid{1});
  return {loss.to(type), total, lse};
}

at::Tensor cross_entropy_bwd(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                             const at::Tensor& logsumexp, const at::Tensor& total_weight, int64_t reduction,
                             int64_t ignore_index) {
  constexpr const char* kName = "cross_entropy_loss_backward";
  const CrossEntropyPlan plan = checked_plan(kName, self, target, reduction);
  check_same_device(kName, {&self, &grad_output, &logsumexp, &total_weight});
  const bool per_row = reduction == at::Reduction::None;
  TORCH_CHECK(grad_output.numel() == (per_row ? self.size(0) : 1) && logsumexp.numel() == self.size(0), kName,
              ": expected a gradient for each loss, but got shape ", grad_output.sizes());
  const at::Tensor grad_input = at::empty(self.sizes(), self.options());
  const at::Tensor grad = grad_output.contiguous(), indices = target.contiguous();
  TensorArgs args;
  CrossEntropyBackwardParams p{};
  p.grad = args.read(grad);
  p.x = args.read(self);
  p.target = args.read(indices);
  p.lse = args.read(logsumexp);
  p.total_weight = args.read(total_weight);
  p.grad_input = args.write(grad_input);
  p.ignore_index = ignore_index;
  p.rows = static_cast<uint32_t>(self.size(0));
  p.n = static_cast<uint32_t>(self.size(1));
  p.blocks = narrow<uint32_t>(ceil_div(self.numel(), plan.block_elems));
  const CrossEntropyBackwardSpec spec{.dtype = dtype_of(self, kName),
                                      .target_dtype = dtype_of(indices, kName),
                                      .mean = reduction == at::Reduction::Mean,
                                      .per_row = per_row,
                                      .grad_dtype = dtype_of(grad, kName)};
  launch(current(self), kernel::cross_entropy_backward(), spec, p, args,
         linear_grid(ceil_div(p.blocks, CrossEntropyBackwardParams::kLocal)));
  return grad_input;
}

}  // namespace aule::ops
