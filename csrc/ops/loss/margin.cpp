// The checks and their texts are PyTorch's.
#include "ops/loss/margin.h"

#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <bit>

#include "kernels_loss.gen.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

struct Margin {
  const char* op;
  at::Tensor x, target, weight;  // contiguous; the weight may be undefined
  int64_t rows = 1, classes = 1;
  bool multilabel = false, square = false;
  double margin = 1;

  // Whether the result has a number for each row, or one number.
  bool per_row(int64_t reduction) const {
    return reduction == at::Reduction::None && (multilabel ? target.dim() > 1 : target.dim() > 0);
  }
};

void check_tensors(const char* op, const at::Tensor& self, const at::Tensor& target) {
  check_same_device(op, {&self, &target});
  check_floating(op, self);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}

Margin multi_margin_of(const char* op, const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                       const at::Scalar& margin, const OptionalTensor& weight) {
  Margin m{op, {}, {}, {}};
  const int64_t power = p.toLong();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  at::native::multi_margin_loss_shape_check(m.rows, m.classes, self.dim(), self, target, weight);
  check_tensors(op, self, target);
  m.square = power == 2;
  m.margin = margin.toDouble();
  m.x = self.contiguous();
  m.target = target.contiguous();
  if (weight.has_value() && weight->defined()) {
    check_same_device(op, {&self, &*weight});
    TORCH_CHECK(weight->scalar_type() == self.scalar_type(), "expected scalar type ", self.scalar_type(), " but found ",
                weight->scalar_type());
    m.weight = weight->contiguous();
  }
  return m;
}

Margin multilabel_of(const char* op, const at::Tensor& self, const at::Tensor& target) {
  Margin m{op, {}, {}, {}};
  at::native::multilabel_margin_loss_shape_check(m.rows, m.classes, self.dim(), self, target);
  check_tensors(op, self, target);
  m.multilabel = true;
  m.x = self.contiguous();
  m.target = target.contiguous();
  return m;
}

struct Gradient {
  at::Tensor grad;  // contiguous
  bool per_row = false;
  double scale = 1;
};

void run(const Margin& m, const at::Tensor& is_target, const at::Tensor& out, const Gradient* gradient) {
  const DType dtype = dtype_of(m.x, m.op);
  const auto kernel = kernel::margin_loss(compute_type(dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(m.x.device().index(), kernel.id), m.op,
                              ": this device has no float64 arithmetic");
  check_walk(m.op, caps_of(m.x), static_cast<uint64_t>(2 * m.classes));
  CommandStream& stream = current(m.x);
  TensorArgs args;
  MarginLossParams p{};
  p.x = args.read(m.x);
  p.target = args.read(m.target);
  if (m.weight.defined()) p.weight = args.read(m.weight);
  if (m.multilabel) p.is_target = gradient ? args.read(is_target) : args.write(is_target);
  if (gradient) p.grad = args.read(gradient->grad);
  p.out_ = args.write(out);
  p.error = error_address(stream);
  p.tag = error_tag(m.op);
  p.n = static_cast<uint64_t>(m.rows * m.classes);
  p.classes = static_cast<uint32_t>(m.classes);
  p.margin = static_cast<float>(m.margin);
  p.margin_bits = std::bit_cast<uint64_t>(m.margin);
  if (gradient) {
    p.grad_stride = gradient->per_row ? 1 : 0;
    p.scale = static_cast<float>(gradient->scale);
    p.scale_bits = std::bit_cast<uint64_t>(gradient->scale);
  }
  launch(stream, kernel,
         {.dtype = dtype,
          .multilabel = m.multilabel,
          .backward = gradient != nullptr,
          .square = m.square,
          .weighted = m.weight.defined()},
         p, args, linear_grid(ceil_div(p.n, MarginLossParams::kLocal)));
}

// Sums of the terms of each class, which have the arithmetic type.
at::Tensor loss(const Margin& m, int64_t reduction, const at::Tensor& is_target) {
  const at::ScalarType type = m.x.scalar_type(), wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor terms = at::empty({m.rows, m.classes}, m.x.options().dtype(wide));
  if (terms.numel() > 0) run(m, is_target, terms, nullptr);
  if (m.per_row(reduction)) return terms.sum(1).to(type);
  at::Tensor sum = terms.sum();
  if (reduction == at::Reduction::Mean && m.rows > 0) sum.div_(m.rows);
  return sum.to(type);
}

void gradient(const Margin& m, const at::Tensor& grad_output, int64_t reduction, const at::Tensor& is_target,
              at::Tensor& grad_input) {
  const bool per_row = m.per_row(reduction);
  TORCH_CHECK(grad_output.numel() == (per_row ? m.rows : 1), m.op, ": expected a gradient of ", per_row ? m.rows : 1,
              " numbers, got shape ", grad_output.sizes());
  TORCH_CHECK(grad_output.scalar_type() == m.x.scalar_type(), "expected scalar type ", m.x.scalar_type(), " but found ",
              grad_output.scalar_type());
  at::native::resize_output(grad_input, m.x.sizes());
  const Gradient g{grad_output.contiguous(), per_row,
                   reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(m.rows) : 1.0};
  into(grad_input, [&](const at::Tensor& dense) { run(m, is_target, dense, &g); });
}

}  // namespace

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction) {
  return loss(multi_margin_of("multi_margin_loss", self, target, p, margin, weight), reduction, {});
}
at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction,
                                  at::Tensor& out) {
  return hand_over(multi_margin_loss(self, target, p, margin, weight, reduction), out);
}

at::Tensor& multi_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                                           const OptionalTensor& weight, int64_t reduction, at::Tensor& grad_input) {
  gradient(multi_margin_of("multi_margin_loss_backward", self, target, p, margin, weight), grad_output, reduction, {},
           grad_input);
  return grad_input;
}
at::Tensor multi_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                      int64_t reduction) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return multi_margin_loss_backward_out(grad_output, self, target, p, margin, weight, reduction, grad_input);
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                                  int64_t reduction) {
  const Margin m = multilabel_of("multilabel_margin_loss", self, target);
  at::Tensor is_target = at::empty(target.sizes(), self.options());
  at::Tensor result = loss(m, reduction, is_target);
  return {std::move(result), std::move(is_target)};
}
std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_forward_out(const at::Tensor& self,
                                                                        const at::Tensor& target, int64_t reduction,
                                                                        at::Tensor& output, at::Tensor& is_target) {
  const auto [result, flags] = multilabel_margin_loss_forward(self, target, reduction);
  return {hand_over(result, output), hand_over(flags, is_target)};
}

at::Tensor& multilabel_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                const at::Tensor& target, int64_t reduction,
                                                const at::Tensor& is_target, at::Tensor& grad_input) {
  const Margin m = multilabel_of("multilabel_margin_loss_backward", self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes() && is_target.scalar_type() == self.scalar_type(), m.op,
              ": expected is_target to be the forward's");
  gradient(m, grad_output, reduction, is_target.contiguous(), grad_input);
  return grad_input;
}
at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return multilabel_margin_loss_backward_out(grad_output, self, target, reduction, is_target, grad_input);
}

}  // namespace aule::ops
