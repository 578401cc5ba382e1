#include "ops/random/dropout.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <bit>
#include <cmath>

#include "kernels_random.gen.h"
#include "ops/random/random.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {
namespace {

// True if the kernels may move 4 elements at a time: 8-byte aligned addresses and no remainder.
bool packed(const at::Tensor& a, const at::Tensor& b, const at::Tensor& mask) {
  const auto unaligned = [](const at::Tensor& t, uint64_t bytes) { return address_of(t) % bytes != 0; };
  return a.numel() % 4 == 0 && a.element_size() <= 4 && !unaligned(a, 8) && !unaligned(b, 8) && !unaligned(mask, 4);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  const char* op = "native_dropout";
  TORCH_CHECK(input.is_floating_point(), op, ": expected a floating point tensor, but got ", input.scalar_type());
  TORCH_CHECK(p >= 0 && p <= 1, op, ": dropout probability has to be between 0 and 1, but got ", p);
  const auto mask_options = input.options().dtype(at::kBool);
  if (input.numel() == 0 || !train.value_or(true)) return {input.clone(), at::ones_like(input, mask_options)};
  const double drop = std::round(std::ldexp(p, 32));
  if (drop == 0x1p32) return {at::zeros_like(input), at::zeros_like(input, mask_options)};

  // Memory order: input, output and mask share one dense layout.
  const at::Tensor dense = input.is_non_overlapping_and_dense() ? input : input.contiguous();
  at::Tensor out = at::empty_like(dense), mask = at::empty_like(dense, mask_options);
  const DType dtype = dtype_of(input, op);
  const auto kernel = kernel::dropout(compute_type(dtype));
  const int device = input.device().index();
  TORCH_CHECK_NOT_IMPLEMENTED(supports(device, kernel.id), op, ": this device has no float64 arithmetic");
  auto& stream = current(input);
  const auto state = runtime::philox_for(std::nullopt, device, 4);
  TensorArgs args;
  DropoutParams params{};
  params.src = args.read(dense);
  params.dst = args.write(out);
  params.mask = args.write(mask);
  params.n = static_cast<uint64_t>(dense.numel());
  state.put_into(params);
  params.drop = static_cast<uint32_t>(drop);
  const double scale = 1.0 / (1.0 - p);
  params.scale = static_cast<float>(scale);
  params.scale_bits = std::bit_cast<uint64_t>(scale);
  launch(stream, kernel, {.dtype = dtype, .by_vec4 = packed(dense, out, mask)}, params, args,
         linear_grid(ceil_div(params.n, kPhiloxElements)));
  return {out, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const char* op = "native_dropout_backward";
  check_same_device(op, {&grad_output, &mask});
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, ": expected a bool mask, but got ", mask.scalar_type());
  TORCH_CHECK(mask.sizes() == grad_output.sizes(), op, ": mask ", mask.sizes(), " and grad_output ",
              grad_output.sizes(), " differ in shape");
  if (!grad_output.is_floating_point()) return grad_output.mul(mask).mul(scale);  // of the default float dtype
  if (grad_output.numel() == 0) return at::empty_like(grad_output);
  // All three have one dense layout: the gradient's own if the mask shares it, else contiguous.
  const bool shared = grad_output.is_non_overlapping_and_dense() && grad_output.strides() == mask.strides();
  const at::Tensor grad = shared ? grad_output : grad_output.contiguous();
  const at::Tensor kept = shared ? mask : mask.contiguous();
  at::Tensor out = at::empty_like(grad);
  const DType dtype = dtype_of(grad, op);
  const auto kernel = kernel::dropout_backward(compute_type(dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(grad.device().index(), kernel.id), op,
                              ": this device has no float64 arithmetic");
  auto& stream = current(grad);
  TensorArgs args;
  DropoutBackwardParams params{};
  params.grad_out = args.read(grad);
  params.grad_in = args.write(out);
  params.mask = args.read(kept);
  params.n = static_cast<uint64_t>(grad.numel());
  params.scale = static_cast<float>(scale);
  params.scale_bits = std::bit_cast<uint64_t>(scale);
  launch(stream, kernel, {.dtype = dtype, .by_vec4 = packed(grad, out, kept)}, params, args,
         linear_grid(ceil_div(params.n, kPhiloxElements)));
  return out;
}

}  // namespace aule::ops
