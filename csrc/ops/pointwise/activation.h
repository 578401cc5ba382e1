// Activations with arguments of their own, and their backwards.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace aule::ops {

using at::Scalar;
using at::Tensor;

Tensor gelu(const Tensor& self, std::string_view approximate);
Tensor& gelu_out(const Tensor& self, std::string_view approximate, Tensor& out);
Tensor gelu_backward(const Tensor& grad, const Tensor& self, std::string_view approximate);
Tensor& gelu_backward_out(const Tensor& grad, const Tensor& self, std::string_view approximate, Tensor& grad_input);
Tensor& threshold_out(const Tensor& self, const Scalar& threshold, const Scalar& value, Tensor& out);
Tensor threshold_backward(const Tensor& grad, const Tensor& self, const Scalar& threshold);
Tensor& threshold_backward_out(const Tensor& grad, const Tensor& self, const Scalar& threshold, Tensor& grad_input);
Tensor hardtanh(const Tensor& self, const Scalar& min_val, const Scalar& max_val);
Tensor& hardtanh_(Tensor& self, const Scalar& min_val, const Scalar& max_val);
Tensor& hardtanh_out(const Tensor& self, const Scalar& min_val, const Scalar& max_val, Tensor& out);
Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& min_val, const Scalar& max_val);
Tensor& hardtanh_backward_out(const Tensor& grad, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                              Tensor& grad_input);
Tensor& leaky_relu_out(const Tensor& self, const Scalar& negative_slope, Tensor& out);
Tensor& leaky_relu_backward_out(const Tensor& grad, const Tensor& self, const Scalar& negative_slope,
                                bool self_is_result, Tensor& grad_input);
Tensor& elu_out(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, Tensor& out);
Tensor& elu_backward_out(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                         bool is_result, const Tensor& self_or_result, Tensor& grad_input);
Tensor& softplus_out(const Tensor& self, const Scalar& beta, const Scalar& threshold, Tensor& out);
Tensor& softplus_backward_out(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                              Tensor& grad_input);
Tensor& hardshrink_out(const Tensor& self, const Scalar& lambd, Tensor& out);
Tensor& softshrink_out(const Tensor& self, const Scalar& lambd, Tensor& out);
Tensor& shrink_backward_out(const Tensor& grad, const Tensor& self, const Scalar& lambd, Tensor& grad_input);
Tensor& logit_backward_out(const Tensor& grad, const Tensor& self, std::optional<double> eps, Tensor& grad_input);

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self);
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const Tensor& self, Tensor& output, Tensor& buffer);
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer);
Tensor& log_sigmoid_backward_out(const Tensor& grad, const Tensor& self, const Tensor& buffer, Tensor& grad_input);
Tensor prelu_kernel(const Tensor& self, const Tensor& weight);
std::tuple<Tensor, Tensor> prelu_kernel_backward(const Tensor& grad, const Tensor& self, const Tensor& weight);
Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out);
Tensor gated_activation(const Tensor& gate, const Tensor& up, std::string_view activation);
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim);
Tensor& glu_backward_out(const Tensor& grad, const Tensor& self, int64_t dim, Tensor& grad_input);
Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                        std::optional<at::Generator> generator);
Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                          std::optional<at::Generator> generator);
Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                             std::optional<at::Generator> generator, Tensor& out);

}  // namespace aule::ops
