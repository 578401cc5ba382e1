#include "ops/pointwise/activation.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/WrapDimUtils.h>

#include "ops/pointwise/pointwise.h"

namespace aule::ops {
namespace {

bool is_tanh(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh",
              "gelu: expected approximate to be 'none' or 'tanh', but got '", approximate, "'");
  return approximate == "tanh";
}

}  // namespace

Tensor& gelu_out(const Tensor& self, std::string_view approximate, Tensor& out) {
  return unary(is_tanh(approximate) ? unary_entry::gelu_tanh : unary_entry::gelu, Rule::same, out, self);
}
Tensor gelu(const Tensor& self, std::string_view approximate) {
  Tensor out;
  return ops::gelu_out(self, approximate, out);
}
Tensor& gelu_backward_out(const Tensor& grad, const Tensor& self, std::string_view approximate, Tensor& grad_input) {
  const Entry& entry = is_tanh(approximate) ? binary_entry::gelu_tanh_backward : binary_entry::gelu_backward;
  return binary(entry, Rule::same, grad_input, grad, self);
}
Tensor gelu_backward(const Tensor& grad, const Tensor& self, std::string_view approximate) {
  Tensor grad_input;
  return ops::gelu_backward_out(grad, self, approximate, grad_input);
}

Tensor& threshold_out(const Tensor& self, const Scalar& threshold, const Scalar& value, Tensor& out) {
  return unary(unary_entry::threshold, out, self, {threshold, value});
}
Tensor& threshold_backward_out(const Tensor& grad, const Tensor& self, const Scalar& threshold, Tensor& grad_input) {
  return binary(binary_entry::threshold_backward, grad_input, grad, self, {threshold});
}
Tensor threshold_backward(const Tensor& grad, const Tensor& self, const Scalar& threshold) {
  Tensor grad_input;
  return ops::threshold_backward_out(grad, self, threshold, grad_input);
}

Tensor& hardtanh_out(const Tensor& self, const Scalar& min_val, const Scalar& max_val, Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "hardtanh: not implemented for Bool");
  return unary(unary_entry::clamp, out, self, {min_val, max_val});
}
Tensor hardtanh(const Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  Tensor out;
  return ops::hardtanh_out(self, min_val, max_val, out);
}
Tensor& hardtanh_(Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  return ops::hardtanh_out(self, min_val, max_val, self);
}
Tensor& hardtanh_backward_out(const Tensor& grad, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                              Tensor& grad_input) {
  return binary(binary_entry::hardtanh_backward, Rule::same, grad_input, grad, self, {min_val, max_val});
}
Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  Tensor grad_input;
  return ops::hardtanh_backward_out(grad, self, min_val, max_val, grad_input);
}

Tensor& leaky_relu_out(const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  return unary(unary_entry::leaky_relu, Rule::same, out, self, {negative_slope});
}
Tensor& leaky_relu_backward_out(const Tensor& grad, const Tensor& self, const Scalar& negative_slope,
                                bool self_is_result, Tensor& grad_input) {
  TORCH_CHECK(!self_is_result || negative_slope.toDouble() >= 0.0,
              "leaky_relu_backward: the in-place form needs a negative_slope of at least 0, got ",
              negative_slope.toDouble());
  return binary(binary_entry::leaky_relu_backward, Rule::same, grad_input, grad, self, {negative_slope});
}
Tensor& elu_out(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, Tensor& out) {
  return unary(unary_entry::elu, Rule::same, out, self, {alpha.toDouble() * scale.toDouble(), scale, input_scale});
}
Tensor& elu_backward_out(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                         bool is_result, const Tensor& self_or_result, Tensor& grad_input) {
  TORCH_CHECK(!is_result || alpha.toDouble() >= 0.0,
              "elu_backward: the in-place form needs an alpha of at least 0, got ", alpha.toDouble());
  return binary(is_result ? binary_entry::elu_backward_result : binary_entry::elu_backward, Rule::same, grad_input,
                grad, self_or_result, {alpha.toDouble() * scale.toDouble(), scale, input_scale});
}
Tensor& softplus_out(const Tensor& self, const Scalar& beta, const Scalar& threshold, Tensor& out) {
  return unary(unary_entry::softplus, Rule::same, out, self, {beta, threshold});
}
Tensor& softplus_backward_out(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                              Tensor& grad_input) {
  return binary(binary_entry::softplus_backward, Rule::same, grad_input, grad, self, {beta, threshold});
}
Tensor& hardshrink_out(const Tensor& self, const Scalar& lambd, Tensor& out) {
  return unary(unary_entry::hardshrink, Rule::same, out, self, {lambd});
}
Tensor& softshrink_out(const Tensor& self, const Scalar& lambd, Tensor& out) {
  TORCH_CHECK(lambd.toDouble() >= 0, "softshrink: expected lambda to be at least 0, but got ", lambd.toDouble());
  return unary(unary_entry::softshrink, Rule::same, out, self, {lambd});
}
Tensor& shrink_backward_out(const Tensor& grad, const Tensor& self, const Scalar& lambd, Tensor& grad_input) {
  return binary(binary_entry::shrink_backward, Rule::same, grad_input, grad, self, {lambd});
}
Tensor& logit_backward_out(const Tensor& grad, const Tensor& self, std::optional<double> eps, Tensor& grad_input) {
  return binary(binary_entry::logit_backward, Rule::same, grad_input, grad, self, {eps.value_or(-1.0)});
}

// Only the CPU uses the buffer. It stays empty here.
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  Tensor output;
  unary(unary_entry::log_sigmoid, Rule::same, output, self);
  return {output, at::empty({0}, self.options())};
}
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const Tensor& self, Tensor& output, Tensor& buffer) {
  unary(unary_entry::log_sigmoid, Rule::same, output, self);
  return {output, buffer};
}
Tensor& log_sigmoid_backward_out(const Tensor& grad, const Tensor& self, const Tensor&, Tensor& grad_input) {
  return binary(binary_entry::log_sigmoid_backward, Rule::same, grad_input, grad, self);
}
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  Tensor grad_input;
  return ops::log_sigmoid_backward_out(grad, self, buffer, grad_input);
}

Tensor prelu_kernel(const Tensor& self, const Tensor& weight) {
  Tensor out;
  return binary(binary_entry::prelu, Rule::same, out, self, weight);
}
std::tuple<Tensor, Tensor> prelu_kernel_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  Tensor grad_self, grad_weight;
  ternary(ternary_entry::prelu_backward, grad_self, grad, self, weight);
  ternary(ternary_entry::prelu_weight_backward, grad_weight, grad, self, weight);
  return {grad_self, grad_weight};
}

Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out) {
  TORCH_CHECK(self.dim() > 0, "glu: 0-dimensional tensors are not supported");
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.size(d) % 2 == 0, "glu: the halved dimension must be even, but dimension ", d, " has size ",
              self.size(d));
  const int64_t half = self.size(d) / 2;
  return binary(binary_entry::glu, Rule::same, out, self.narrow(d, 0, half), self.narrow(d, half, half));
}
Tensor& glu_backward_out(const Tensor& grad, const Tensor& self, int64_t dim, Tensor& grad_input) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  const int64_t half = self.size(d) / 2;
  at::native::resize_output(grad_input, self.sizes());
  const Tensor a = self.narrow(d, 0, half), b = self.narrow(d, half, half);
  Tensor grad_a = grad_input.narrow(d, 0, half), grad_b = grad_input.narrow(d, half, half);
  binary(binary_entry::glu, Rule::same, grad_a, grad, b);
  ternary(ternary_entry::glu_backward, grad_b, grad, a, b);
  return grad_input;
}
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  Tensor grad_input = at::empty_like(self, at::MemoryFormat::Contiguous);
  return ops::glu_backward_out(grad, self, dim, grad_input);
}

Tensor gated_activation(const Tensor& gate, const Tensor& up, std::string_view activation) {
  constexpr const char* kName = "gated_activation";
  TORCH_CHECK_VALUE(activation == "silu" || activation == "gelu_tanh", kName,
                    ": expected activation 'silu' or 'gelu_tanh', but got '", activation, "'");
  TORCH_CHECK(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type() && gate.is_floating_point(), kName,
              ": expected gate and up of one shape and one floating point dtype, but got ", gate.sizes(), " of ",
              gate.scalar_type(), " and ", up.sizes(), " of ", up.scalar_type());
  Tensor out;
  return binary(activation == "silu" ? binary_entry::silu_mul : binary_entry::gelu_tanh_mul, Rule::same, out, gate, up);
}

Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                             std::optional<at::Generator> generator, Tensor& out) {
  if (!training) return ops::leaky_relu_out(self, (lower.toDouble() + upper.toDouble()) / 2, out);
  noise.uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.masked_fill_(self.gt(0), 1);
  return binary(binary_entry::mul, out, self, noise);
}
Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                        std::optional<at::Generator> generator) {
  Tensor out;
  return ops::rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}
Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                          std::optional<at::Generator> generator) {
  return ops::rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

}  // namespace aule::ops
