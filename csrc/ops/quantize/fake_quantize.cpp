#include "ops/quantize/fake_quantize.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels_quantize.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// PyTorch's CPU cuts a zero point off in some operators and rounds it in others; these do as it does.
enum class Zero : int {
#define ZERO_POINT(code, name) name = code,
#include "quantize/zero_points.def"
#undef ZERO_POINT
};

struct Quantization {
  const char* op;
  int64_t quant_min, quant_max;
  double scale = 1, zero_point = 0;
  at::Tensor scales = {}, zero_points = {};  // of one element, or of one for each channel
  int64_t axis = -1;                         // of the channels; -1: none
  Zero zero = Zero::plain;
  at::Tensor enabled = {};

  void check(const at::Tensor& self) const {
    check_floating(op, self);
    TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
    if (!scales.defined()) {
      TORCH_CHECK(zero_point >= static_cast<double>(quant_min) && zero_point <= static_cast<double>(quant_max),
                  "`zero_point` must be between `quant_min` and `quant_max`.");
      return;
    }
    check_same_device(op, {&self, &scales, &zero_points});
    TORCH_CHECK(scales.is_floating_point(), op, ": expected a floating point scale, but got ", scales.scalar_type());
    TORCH_CHECK(scales.scalar_type() != at::kDouble && zero_points.scalar_type() != at::kDouble, op,
                ": expected scale and zero point of at most 32 bits");
    if (axis < 0) {
      TORCH_CHECK(scales.numel() == 1 && zero_points.numel() == 1, op,
                  ": expected one scale and one zero point, got shapes ", scales.sizes(), " and ", zero_points.sizes());
      return;
    }
    TORCH_CHECK(scales.dim() == 1, "scale should be a 1-D tensor");
    TORCH_CHECK(zero_points.dim() == 1, "zero point should be a 1-D tensor");
    TORCH_CHECK(axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
    TORCH_CHECK(scales.numel() == zero_points.numel(), "scale and zero-point need to have the same dimensions");
    TORCH_CHECK(scales.numel() == self.size(axis),
                "dimensions of scale and zero-point are not consistent with input "
                "tensor");
  }
};

// Results of a launch; `dy` and the terms are the gradients'.
struct Results {
  at::Tensor y, mask, dy, scale_terms, zero_terms;
  float factor = 1;
};

void run(const Quantization& q, const at::Tensor& x, const Results& r) {
  if (x.numel() == 0) return;
  const DType dtype = dtype_of(x, q.op);
  const auto kernel = kernel::fake_quantize(compute_type(dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(x.device().index(), kernel.id), q.op, ": this device has no float64 arithmetic");
  const bool tensors = q.scales.defined(), gradients = r.dy.defined();
  const at::Tensor scales = tensors ? q.scales.contiguous() : q.scales;
  const at::Tensor zero_points = tensors ? q.zero_points.contiguous() : q.zero_points;
  TensorArgs args;
  FakeQuantizeParams p{};
  p.x = args.read(x);
  p.y = args.write(r.y);
  if (tensors) {
    p.scale_ = args.read(scales);
    p.zero_point_ = args.read(zero_points);
  }
  if (q.enabled.defined()) p.enabled = args.read(q.enabled);
  if (gradients) {
    p.dy = args.read(r.dy);
    p.scale_terms = args.write(r.scale_terms);
    p.zero_terms = args.write(r.zero_terms);
  } else {
    p.mask = args.write(r.mask);
  }
  p.n = static_cast<uint64_t>(x.numel());
  p.inner = p.n;
  p.channels = 1;
  if (q.axis >= 0) {
    p.inner = 1;
    for (int64_t d = q.axis + 1; d < x.dim(); ++d) p.inner *= static_cast<uint64_t>(x.size(d));
    p.channels = static_cast<uint32_t>(x.size(q.axis));
  }
  p.scale = static_cast<float>(q.scale);
  p.inverse = 1.0f / p.scale;  // as the CPU rounds it, which the device's division may not
  p.zero_point = static_cast<float>(q.zero_point);
  p.quant_min = static_cast<float>(q.quant_min);
  p.quant_max = static_cast<float>(q.quant_max);
  p.factor = r.factor;
  launch(current(x), kernel,
         {.dtype = dtype,
          .tensors = tensors,
          .scale_dtype = tensors ? dtype_of(scales, q.op) : DType::f32,
          .zero_dtype = tensors ? dtype_of(zero_points, q.op) : DType::i32,
          .zero = static_cast<int>(q.zero),
          .switched = q.enabled.defined(),
          .switch_dtype = q.enabled.defined() ? dtype_of(q.enabled, q.op) : DType::u8,
          .gradients = gradients},
         p, args, linear_grid(ceil_div(p.n, FakeQuantizeParams::kLocal)));
}

TwoTensors quantize(const Quantization& q, const at::Tensor& self) {
  q.check(self);
  const at::Tensor x = self.contiguous();
  at::Tensor y = at::empty_like(x), mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  run(q, x, {y, mask, {}, {}, {}, 1});
  return {std::move(y), std::move(mask)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> differentiate(const Quantization& q, const at::Tensor& grad,
                                                             const at::Tensor& self, double factor) {
  q.check(self);
  TORCH_CHECK(grad.sizes() == self.sizes() && grad.scalar_type() == self.scalar_type(), q.op,
              ": expected a gradient like the input, got ", grad.scalar_type(), " of shape ", grad.sizes());
  const at::Tensor x = self.contiguous(), dy = grad.contiguous();
  const auto wide = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Results r{at::empty_like(x),         {}, dy, at::empty(x.sizes(), wide), at::empty(x.sizes(), wide),
                  static_cast<float>(factor)};
  run(q, x, r);
  const auto sum = [&](const at::Tensor& terms, const at::Tensor& of) {
    if (q.axis < 0) return terms.sum().reshape({1}).to(of.scalar_type());
    std::vector<int64_t> others;
    for (int64_t d = 0; d < x.dim(); ++d)
      if (d != q.axis) others.push_back(d);
    return (others.empty() ? terms : terms.sum(others)).to(of.scalar_type());
  };
  return {r.y, sum(r.scale_terms, q.scales), sum(r.zero_terms, q.zero_points)};
}

}  // namespace

TwoTensors fake_quantize_per_tensor(const at::Tensor& self, double scale, int64_t zero_point, int64_t quant_min,
                                    int64_t quant_max) {
  return quantize({.op = "fake_quantize_per_tensor_affine",
                   .quant_min = quant_min,
                   .quant_max = quant_max,
                   .scale = scale,
                   .zero_point = static_cast<double>(zero_point)},
                  self);
}

TwoTensors fake_quantize_per_tensor_qparams(const at::Tensor& self, const at::Tensor& scale,
                                            const at::Tensor& zero_point, const at::Tensor& fake_quant_enabled,
                                            int64_t quant_min, int64_t quant_max) {
  return fake_quantize_switched(self, scale, zero_point, fake_quant_enabled, -1, quant_min, quant_max);
}

TwoTensors fake_quantize_switched(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                  const at::Tensor& fake_quant_enabled, int64_t axis, int64_t quant_min,
                                  int64_t quant_max) {
  return quantize({.op = axis < 0 ? "fake_quantize_per_tensor_affine" : "fake_quantize_per_channel_affine",
                   .quant_min = quant_min,
                   .quant_max = quant_max,
                   .scales = scale,
                   .zero_points = zero_point,
                   .axis = axis,
                   .enabled = fake_quant_enabled},
                  self);
}

TwoTensors fake_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                     int64_t axis, int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(axis >= 0, "`axis` must be between 0 and number of dimensions of input");
  return quantize({.op = "fake_quantize_per_channel_affine",
                   .quant_min = quant_min,
                   .quant_max = quant_max,
                   .scales = scale,
                   .zero_points = zero_point,
                   .axis = axis},
                  self);
}

at::Tensor fake_quantize_learnable_per_tensor(const at::Tensor& self, const at::Tensor& scale,
                                              const at::Tensor& zero_point, int64_t quant_min, int64_t quant_max,
                                              double) {
  return std::get<0>(quantize({.op = "_fake_quantize_learnable_per_tensor_affine",
                               .quant_min = quant_min,
                               .quant_max = quant_max,
                               .scales = scale,
                               .zero_points = zero_point,
                               .zero = Zero::rounded},
                              self));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fake_quantize_learnable_per_tensor_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
    int64_t quant_min, int64_t quant_max, double grad_factor) {
  return differentiate({.op = "_fake_quantize_learnable_per_tensor_affine_backward",
                        .quant_min = quant_min,
                        .quant_max = quant_max,
                        .scales = scale,
                        .zero_points = zero_point,
                        .zero = Zero::cut},
                       grad, self, grad_factor);
}

at::Tensor fake_quantize_learnable_per_channel(const at::Tensor& self, const at::Tensor& scale,
                                               const at::Tensor& zero_point, int64_t axis, int64_t quant_min,
                                               int64_t quant_max, double) {
  return std::get<0>(quantize({.op = "_fake_quantize_learnable_per_channel_affine",
                               .quant_min = quant_min,
                               .quant_max = quant_max,
                               .scales = scale,
                               .zero_points = zero_point,
                               .axis = axis,
                               .zero = Zero::rounded},
                              self));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fake_quantize_learnable_per_channel_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
    int64_t quant_min, int64_t quant_max, double grad_factor) {
  return differentiate({.op = "_fake_quantize_learnable_per_channel_affine_backward",
                        .quant_min = quant_min,
                        .quant_max = quant_max,
                        .scales = scale,
                        .zero_points = zero_point,
                        .axis = axis,
                        .zero = Zero::rounded},
                       grad, self, grad_factor);
}

}  // namespace aule::ops
