#include "ops/loss/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>

#include "kernels_loss.gen.h"
#include "ops/loss/plan.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Both forms as (N, C, S).
struct Shape {
  int64_t n = 1, classes = 1, spatial = 1;
  at::Tensor input;  // dense enough for stride_n, stride_c, stride_s
  int64_t stride_n = 0, stride_c = 0, stride_s = 0;
  int64_t positions() const { return n * spatial; }
};
using ShapeOf = Shape(const char*, const at::Tensor&, const at::Tensor&);

bool given(const OptionalTensor& t) { return t.has_value() && t->defined(); }

void check_arguments(const char* op, const Shape& shape, const at::Tensor& self, const at::Tensor& target,
                     const OptionalTensor& weight) {
  check_same_device(op, {&self, &target});
  check_floating(op, self);
  const auto type = target.scalar_type();
  TORCH_CHECK(type == at::kLong || type == at::kByte || type == at::kInt, op,
              ": expected target of dtype int64, but got ", type);
  TORCH_CHECK(shape.positions() <= std::numeric_limits<int32_t>::max(), op,
              ": more than 2^31 - 1 targets are not supported on aule");
  if (!given(weight)) return;
  check_same_device(op, {&self, &*weight});
  TORCH_CHECK(weight->dim() == 1 && weight->numel() == shape.classes, op,
              ": weight tensor should be defined either for all ", shape.classes,
              " classes or no classes but got weight tensor of shape: ", weight->sizes());
  TORCH_CHECK(weight->scalar_type() == self.scalar_type(), op, ": expected scalar type ", self.scalar_type(),
              " for weight but found ", weight->scalar_type());
}

Shape shape_1d(const char* op, const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, op, ": input tensor should be 1D or 2D");
  TORCH_CHECK(target.dim() <= 1, op, ": 0D or 1D target tensor expected, multi-target not supported");
  if (self.dim() == 1) {
    TORCH_CHECK(target.numel() == 1, op, ": expected one target for a 1D input");
    return {1, self.size(0), 1, self, 0, self.stride(0), 0};
  }
  TORCH_CHECK(target.dim() == 1 && target.size(0) == self.size(0), op, ": size mismatch (got input: ", self.sizes(),
              ", target: ", target.sizes(), ")");
  return {self.size(0), self.size(1), 1, self, self.stride(0), self.stride(1), 0};
}

Shape shape_2d(const char* op, const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK(target.dim() == 3, op,
              ": only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4, op,
              ": only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2), op,
              ": size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  // The kernel steps through H * W with one stride.
  const bool merged = self.size(2) == 1 || self.size(3) == 1 || self.stride(2) == self.stride(3) * self.size(3);
  const at::Tensor input = merged ? self : self.contiguous();
  const int64_t stride_s = self.size(3) == 1 ? input.stride(2) : input.stride(3);
  return {self.size(0), self.size(1), self.size(2) * self.size(3), input, input.stride(0), input.stride(1), stride_s};
}

void check_kernel(const char* op, const at::Tensor& self, KernelId kernel) {
  TORCH_CHECK_NOT_IMPLEMENTED(supports(self.device().index(), kernel), op, ": this device has no float64 arithmetic");
}

// Params that the kernels of both directions share.
template <class Params>
void fill(Params& p, TensorArgs& args, const Shape& shape, const at::Tensor& target, const OptionalTensor& weight,
          int64_t ignore_index) {
  p.target = args.read(target);
  if (given(weight)) {
    p.weight = args.read(*weight);
    p.weight_stride = weight->stride(0);
  }
  p.stride_n = shape.stride_n;
  p.stride_c = shape.stride_c;
  p.stride_s = shape.stride_s;
  p.ignore_index = ignore_index;
  p.classes = shape.classes;
  p.n = static_cast<uint32_t>(shape.positions());
  p.spatial = static_cast<uint32_t>(shape.spatial);
}

// `output` and `total_weight` have their final shapes.
void forward(const char* op, const Shape& shape, const at::Tensor& target, const OptionalTensor& weight,
             int64_t reduction, int64_t ignore_index, at::Tensor& output, at::Tensor& total_weight) {
  const bool sum = reduction != at::Reduction::None;
  if (!sum) total_weight.zero_();
  if (shape.positions() == 0) {
    if (sum) {
      output.fill_(reduction == at::Reduction::Mean ? std::numeric_limits<double>::quiet_NaN() : 0.0);
      total_weight.zero_();
    }
    return;
  }
  const DType dtype = dtype_of(shape.input, op);
  const auto kernel = kernel::nll_loss(compute_type(dtype));
  check_kernel(op, shape.input, kernel.id);
  const at::Tensor dense_target = target.contiguous();
  const DeviceProfile& profile = profile_of(shape.input);
  const uint32_t chunks = nll_loss_chunks(profile, shape.positions());
  if (sum) check_walk(op, profile, chunks / 64);  // of nll_loss_sum.comp's one workgroup
  const bool direct = !sum && output.is_contiguous();
  at::Tensor dst;
  if (sum) {
    dst = at::empty({2 * static_cast<int64_t>(chunks)},
                    shape.input.options().dtype(dtype == DType::f64 ? at::kDouble : at::kFloat));
  } else {
    dst = direct ? output : at::empty_like(output, at::MemoryFormat::Contiguous);
  }

  auto& stream = current(shape.input);
  {
    TensorArgs args;
    NllLossParams p{};
    p.src = args.read(shape.input);
    fill(p, args, shape, dense_target, weight, ignore_index);
    p.dst = args.write(dst);
    p.error = error_address(stream);
    p.chunks = chunks;
    p.tag = error_tag(op);
    launch(stream, kernel,
           {.dtype = dtype, .target_dtype = dtype_of(target, op), .weighted = given(weight), .sum = sum}, p, args,
           linear_grid(ceil_div(sum ? chunks : p.n, NllLossParams::kLocal)));
  }
  if (!sum) {
    if (!direct) output.copy_(dst);
    return;
  }
  TensorArgs args;
  NllLossSumParams p{};
  p.partial = args.read(dst);
  p.loss = args.write(output);
  p.total_weight = args.write(total_weight);
  p.chunks = chunks;
  launch(stream, kernel::nll_loss_sum(compute_type(dtype)),
         {.dtype = dtype, .mean = reduction == at::Reduction::Mean, .local = 64}, p, args, Grid{1});
}

// `shape.input` is grad_input, or a contiguous copy of it.
void backward(const char* op, const Shape& shape, const at::Tensor& grad_output, const at::Tensor& target,
              const OptionalTensor& weight, int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight,
              at::Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  shape.input.zero_();
  const bool per_element = reduction == at::Reduction::None;
  const DType dtype = dtype_of(grad_input, op);
  const auto kernel = kernel::nll_loss_backward(compute_type(dtype));
  check_kernel(op, grad_input, kernel.id);
  const at::Tensor dense_target = target.contiguous(), grad = grad_output.contiguous();
  TORCH_CHECK(grad.scalar_type() == grad_input.scalar_type(), op, ": expected grad_output of dtype ",
              grad_input.scalar_type(), ", but got ", grad.scalar_type());
  auto& stream = current(grad_input);
  TensorArgs args;
  NllLossBackwardParams p{};
  p.grad = args.read(grad);
  fill(p, args, shape, dense_target, weight, ignore_index);
  p.total_weight = reduction == at::Reduction::Mean ? args.read(total_weight) : 0;
  p.grad_input = args.write(shape.input);
  launch(stream, kernel,
         {.dtype = dtype,
          .target_dtype = dtype_of(target, op),
          .weighted = given(weight),
          .mean = reduction == at::Reduction::Mean,
          .per_element = per_element},
         p, args, linear_grid(ceil_div(p.n, NllLossBackwardParams::kLocal)));
  // If the kernel cannot address grad_input's layout, it has filled a contiguous copy.
  if (!shape.input.is_same(grad_input)) grad_input.copy_(shape.input);
}

void forward_out(ShapeOf shape_of, const char* op, const at::Tensor& self, const at::Tensor& target,
                 const OptionalTensor& weight, int64_t reduction, int64_t ignore_index, at::Tensor& output,
                 at::Tensor& total_weight) {
  const Shape shape = shape_of(op, self, target);
  check_arguments(op, shape, self, target, weight);
  const bool per_target = reduction == at::Reduction::None && self.dim() > 1;
  at::native::resize_output(output, per_target ? target.sizes() : at::IntArrayRef{});
  at::native::resize_output(total_weight, {});
  forward(op, shape, target, weight, reduction, ignore_index, output, total_weight);
}

void backward_out(ShapeOf shape_of, const char* op, const at::Tensor& grad_output, const at::Tensor& self,
                  const at::Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                  const at::Tensor& total_weight, at::Tensor& grad_input) {
  const Shape shape = shape_of(op, self, target);
  check_arguments(op, shape, self, target, weight);
  check_same_device(op, {&grad_output, &self, &total_weight, &grad_input});
  const int64_t grads = reduction == at::Reduction::None ? shape.positions() : 1;
  TORCH_CHECK(grad_output.numel() == grads, op, ": expected grad_output of ", grads, " elements, but got shape ",
              grad_output.sizes());
  at::native::resize_output(grad_input, self.sizes());
  backward(op, shape_of(op, grad_input, target), grad_output, target, weight, reduction, ignore_index, total_weight,
           grad_input);
}

}  // namespace

std::tuple<at::Tensor&, at::Tensor&> nll_loss_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                          const OptionalTensor& weight, int64_t reduction,
                                                          int64_t ignore_index, at::Tensor& output,
                                                          at::Tensor& total_weight) {
  forward_out(shape_1d, "nll_loss_forward", self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

at::Tensor& nll_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                  const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                  const at::Tensor& total_weight, at::Tensor& grad_input) {
  backward_out(shape_1d, "nll_loss_backward", grad_output, self, target, weight, reduction, ignore_index, total_weight,
               grad_input);
  return grad_input;
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                            const OptionalTensor& weight, int64_t reduction,
                                                            int64_t ignore_index, at::Tensor& output,
                                                            at::Tensor& total_weight) {
  forward_out(shape_2d, "nll_loss2d_forward", self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const OptionalTensor& weight, int64_t reduction,
                                                      int64_t ignore_index) {
  at::Tensor output = at::empty({0}, self.options()), total_weight = at::empty({}, self.options());
  nll_loss2d_forward_out(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                    const at::Tensor& total_weight, at::Tensor& grad_input) {
  backward_out(shape_2d, "nll_loss2d_backward", grad_output, self, target, weight, reduction, ignore_index,
               total_weight, grad_input);
  return grad_input;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight) {
  at::Tensor grad_input = at::empty(self.sizes(), self.options());
  return nll_loss2d_backward_out(grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input);
}

}  // namespace aule::ops
