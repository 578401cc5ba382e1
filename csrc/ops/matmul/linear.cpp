#include "ops/matmul/linear.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <utility>
#include <vector>

#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "linear_bias_act";

Activation activation_of(std::string_view name) {
  if (name == "none") return Activation::none;
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  if (name == "silu") return Activation::silu;
  TORCH_CHECK_VALUE(false, kOp, ": expected activation to be one of none, relu, gelu, gelu_tanh and silu, but got ",
                    name);
}

struct LinearCall {
  at::Tensor bias, residual;  // undefined: none
  Activation activation = Activation::none;
  std::vector<int64_t> sizes;  // of the result
};

LinearCall checked(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   std::string_view activation, const std::optional<at::Tensor>& residual) {
  LinearCall call{bias.value_or(at::Tensor()), residual.value_or(at::Tensor()), activation_of(activation), {}};
  TORCH_CHECK(x.dim() >= 1, kOp, ": expected x to have at least one dimension, but it has none");
  TORCH_CHECK(x.is_floating_point(), kOp, ": expected x to have a floating point dtype, but got ", x.scalar_type());
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == x.size(-1), kOp, ": expected weight to have sizes [n, ",
              x.size(-1), "], but got ", weight.sizes());
  const auto check_dtype = [&](const char* name, const at::Tensor& t) {
    TORCH_CHECK(!t.defined() || t.scalar_type() == x.scalar_type(), kOp, ": expected ", name, " to have x's dtype ",
                x.scalar_type(), ", but got ", t.scalar_type());
  };
  check_dtype("weight", weight);
  check_dtype("bias", call.bias);
  check_dtype("residual", call.residual);
  call.sizes = x.sizes().vec();
  call.sizes.back() = weight.size(0);
  if (call.bias.defined())
    TORCH_CHECK(call.bias.dim() == 1 && call.bias.size(0) == weight.size(0), kOp, ": expected bias to have sizes [",
                weight.size(0), "], but got ", call.bias.sizes());
  if (call.residual.defined())
    TORCH_CHECK(call.residual.sizes() == call.sizes, kOp, ": expected residual to have the result's sizes ",
                at::IntArrayRef(call.sizes), ", but got ", call.residual.sizes(), "; it is not broadcast");
  return call;
}

}  // namespace

at::Tensor linear_bias_act(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           std::string_view activation, const std::optional<at::Tensor>& residual) {
  const LinearCall call = checked(x, weight, bias, activation, residual);
  const at::Tensor out = at::empty(call.sizes, x.options());
  if (out.numel() == 0) return out;
  const int64_t n = weight.size(0), k = weight.size(1), rows = out.numel() / n;
  const at::Tensor added = call.bias.defined() ? call.bias.expand({1, rows, n}) : at::Tensor();
  const at::Tensor after = call.residual.defined() ? call.residual.reshape({1, rows, n}) : at::Tensor();
  gemm(kOp, x.reshape({1, rows, k}), weight.t().unsqueeze(0), added, 1, 1, out.view({1, rows, n}),
       {call.activation, after});
  return out;
}

at::Tensor linear_bias_act_composed(const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, std::string_view activation,
                                    const std::optional<at::Tensor>& residual) {
  const LinearCall call = checked(x, weight, bias, activation, residual);
  at::Tensor y = at::linear(x, weight, bias);
  switch (call.activation) {
    case Activation::relu: y = at::relu(y); break;
    case Activation::gelu: y = at::gelu(y, "none"); break;
    case Activation::gelu_tanh: y = at::gelu(y, "tanh"); break;
    case Activation::silu: y = at::silu(y); break;
    case Activation::none: break;
  }
  return call.residual.defined() ? at::add(y, call.residual) : y;
}

}  // namespace aule::ops
