#include "ops/loss/cross_entropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "kernels_loss.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr uint32_t kLocal = 256;

int64_t elements_of_block(const at::Tensor& t) { return 16 / static_cast<int64_t>(t.element_size()); }

void check(const char* op, const at::Tensor& self, const at::Tensor& target) {
  check_same_device(op, {&self, &target});
  TORCH_CHECK(cross_entropy_serves(self, target), op, ": no kernel serves logits of ", self.scalar_type(),
              " and shape ", self.sizes(), " with targets of ", target.scalar_type(), " and shape ", target.sizes());
}

}  // namespace

bool cross_entropy_serves(const at::Tensor& self, const at::Tensor& target) {
  const auto type = self.scalar_type(), index = target.scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  if (index != at::kLong && index != at::kInt && index != at::kByte) return false;
  if (self.dim() != 2 || target.dim() != 1 || self.size(0) != target.size(0)) return false;
  if (target.device() != self.device() || !self.is_contiguous() || address_of(self) % 16 != 0) return false;
  const Caps& caps = caps_of(self);
  return !caps.is_software() && caps.max_workgroup_invocations >= kLocal && self.size(0) > 0 &&
         self.size(1) >= elements_of_block(self) && self.numel() < 0xffffff00ll;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_fwd(const at::Tensor& self, const at::Tensor& target,
                                                                 int64_t reduction, int64_t ignore_index, bool wide) {
  constexpr const char* kName = "cross_entropy_loss";
  check(kName, self, target);
  const int64_t rows = self.size(0);
  const auto floats = self.options().dtype(at::kFloat);
  const at::Tensor indices = target.contiguous(), lse = at::empty({rows}, floats);
  auto& stream = current(self);
  const Caps& caps = caps_of(self);
  const int64_t blocks = self.size(1) / elements_of_block(self);
  const bool subgroups = caps.subgroup_arithmetic && caps.min_subgroup_size >= 4;
  // A long row has a workgroup of its own. Shorter rows have small persistent workgroups, as many as are resident.
  constexpr int64_t kLongBlocks = 2048, kStaying = 1024;  // invocations of a multiprocessor
  const uint32_t local = blocks > kLongBlocks ? kLocal : 32;
  int64_t groups = rows;
  if (blocks <= kLongBlocks && reduction != at::Reduction::None && !walks_limited(caps))
    groups = std::min(rows, kStaying / local * profile_of(self).multiprocessors);
  const at::Tensor partial = at::empty({groups, 2}, floats);
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
    p.groups = static_cast<uint32_t>(groups);
    p.tag = error_tag(kName);
    launch(stream, kernel::cross_entropy(subgroups ? 2 : 1),
           {.dtype = dtype_of(self, kName), .target_dtype = dtype_of(indices, kName), .local = local}, p, args,
           linear_grid(groups));
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
  p.chunks = static_cast<uint32_t>(groups);
  const uint32_t widest = std::min<uint32_t>(1024, std::bit_floor(caps.max_workgroup_invocations));
  launch(stream, kernel::nll_loss_sum(DType::f32),
         {.dtype = DType::f32, .mean = reduction == at::Reduction::Mean, .local = widest}, p, args, Grid{1});
  return {loss.to(type), total, lse};
}

at::Tensor cross_entropy_bwd(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                             const at::Tensor& logsumexp, const at::Tensor& total_weight, int64_t reduction,
                             int64_t ignore_index) {
  constexpr const char* kName = "cross_entropy_loss_backward";
  check(kName, self, target);
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
  p.blocks = ceil_div(self.numel(), elements_of_block(self));
  const CrossEntropyBackwardSpec spec{.dtype = dtype_of(self, kName),
                                      .target_dtype = dtype_of(indices, kName),
                                      .mean = reduction == at::Reduction::Mean,
                                      .per_row = per_row,
                                      .grad_dtype = dtype_of(grad, kName)};
  launch(current(self), kernel::cross_entropy_backward(), spec, p, args, linear_grid(ceil_div(p.blocks, kLocal)));
  return grad_input;
}

}  // namespace aule::ops
