#include "ops/matmul/linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <utility>
#include <vector>

#include "ops/matmul/launch.h"
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
  at::Tensor bias;  // undefined: none
  GemmEpilogue epilogue;
  std::vector<int64_t> sizes;  // of the result
};

LinearCall checked(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   std::string_view activation, const std::optional<at::Tensor>& residual) {
  LinearCall call{bias.value_or(at::Tensor()), {activation_of(activation), residual.value_or(at::Tensor())}, {}};
  const at::Tensor& added = call.epilogue.residual;
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
  check_dtype("residual", added);
  call.sizes = x.sizes().vec();
  call.sizes.back() = weight.size(0);
  if (call.bias.defined())
    TORCH_CHECK(call.bias.dim() == 1 && call.bias.size(0) == weight.size(0), kOp, ": expected bias to have sizes [",
                weight.size(0), "], but got ", call.bias.sizes());
  if (added.defined())
    TORCH_CHECK(added.sizes() == call.sizes, kOp, ": expected residual to have the result's sizes ",
                at::IntArrayRef(call.sizes), ", but got ", added.sizes(), "; it is not broadcast");
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
  GemmEpilogue epilogue = call.epilogue;
  if (epilogue.residual.defined()) epilogue.residual = epilogue.residual.reshape({1, rows, n});
  gemm(kOp, x.reshape({1, rows, k}), weight.t().unsqueeze(0), added, 1, 1, out.view({1, rows, n}), epilogue);
  return out;
}

at::Tensor linear_bias_act_composed(const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, std::string_view activation,
                                    const std::optional<at::Tensor>& residual) {
  const LinearCall call = checked(x, weight, bias, activation, residual);
  return apply_epilogue(at::linear(x, weight, bias), call.epilogue, Results::own);
}

}  // namespace aule::ops
