#include "ops/decoding/norm_linear.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <limits>
#include <vector>

#include "kernels_decoding.gen.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/problem.h"
#include "ops/pointwise/activation.h"
#include "ops/tensor/plan_text.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "norm_linear_act";
constexpr uint64_t kMostRows = 2;  // with more, matrix units are faster

struct Operands {
  at::Tensor x, residual, out;  // 2-D
  const at::Tensor& weight;
};

bool launch_fused(const Operands& o, const NormLinearParts& parts) {
  const int64_t m = o.x.size(0), n = o.out.size(1), k = o.x.size(1);
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (k == 0 || k * o.x.element_size() % 16 != 0 || !loads_rows(o.x) || !loads_rows(o.weight) ||
      o.weight.size(0) > kMost || k > kMost || o.x.stride(0) > kMost)
    return false;
  const NormLinearProblem problem{.m = static_cast<uint64_t>(m),
                                  .n = static_cast<uint64_t>(n),
                                  .k = static_cast<uint64_t>(k),
                                  .gated = parts.is_gated(),
                                  .has_norm = parts.norm.has_value(),
                                  .dtype = dtype_of(o.x, kOp)};
  const auto plan = norm_linear_plan(profile_of(o.out), problem);
  if (!plan) return false;
  TensorArgs args;
  GemvNormParams p{};
  p.x = args.read(o.x);
  p.weight = args.read(o.weight);
  p.out_ = args.write(o.out);
  if (parts.bias) p.bias = args.read(*parts.bias);
  if (parts.norm) p.norm = args.read(*parts.norm);
  if (o.residual.defined()) p.residual = args.read(o.residual);
  p.weight_row = o.weight.stride(0);
  p.x_row = static_cast<uint32_t>(o.x.stride(0));
  p.n = static_cast<uint32_t>(n);
  p.k = static_cast<uint32_t>(k);
  p.eps = static_cast<float>(parts.eps);
  args.work = {2.0 * static_cast<double>(m * o.weight.size(0)) * static_cast<double>(k), problem.dtype};
  launch(current(o.out), kernel::gemv_norm(),
         {.dtype = problem.dtype,
          .rows = plan->rows,
          .slice = plan->slice,
          .norm = parts.norm.has_value(),
          .activation = parts.is_gated() ? gate_code(parts) : AULE_ACT_NONE,
          .has_bias = parts.bias.has_value(),
          .residual = o.residual.defined()},
         p, args, plan->grid);
  return true;
}

std::optional<at::Tensor> contiguous(const std::optional<at::Tensor>& t) {
  return t && t->defined() ? std::optional(t->contiguous()) : std::nullopt;
}

}  // namespace

std::optional<NormLinearPlan> norm_linear_plan(const DeviceProfile& profile, const NormLinearProblem& g) {
  const bool served = g.dtype == DType::f32 || g.dtype == DType::f16 || g.dtype == DType::bf16;
  if (!served || g.m > kMostRows || profile.max_workgroup_invocations < 256) return std::nullopt;
  NormLinearPlan plan;
  plan.rows = g.m <= 1 ? 1 : static_cast<int>(g.m);
  const GemvNormSpec spec{.rows = plan.rows, .norm = g.has_norm};
  if (shared_bytes(kernel::gemv_norm(), spec) > profile.shared_bytes) return std::nullopt;
  const uint64_t outs = g.gated ? 2 : 4;  // of a slice
  const auto groups = [&] { return (g.n + outs * (256 / plan.slice) - 1) / (outs * (256 / plan.slice)); };
  // More invocations on one column while there are too few workgroups, and loads for all of them.
  const uint64_t loads = g.k * dtype_size(g.dtype) / 16, enough = uint64_t{profile.multiprocessors} * 4;
  while (plan.slice < 256 && groups() < enough && uint64_t{plan.slice} * 2 <= loads) plan.slice *= 2;
  if (profile.max_loop_iterations > 0 && loads / plan.slice >= profile.max_loop_iterations) return std::nullopt;
  plan.grid = linear_grid(groups());
  return plan;
}

bool loads_rows(const at::Tensor& t) {
  const int64_t size = t.element_size();
  return t.stride(1) == 1 && t.stride(0) >= 0 && t.stride(0) * size % 16 == 0 && address_of(t) % 16 == 0;
}

std::string text_of(const NormLinearPlan& plan) {
  return "rows " + std::to_string(plan.rows) + " slice " + std::to_string(plan.slice) + " " + grid_text(plan.grid);
}

NormLinearParts norm_linear_parts(const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& norm,
                                  double eps, std::string_view activation, const std::optional<at::Tensor>& residual) {
  return {contiguous(bias), contiguous(norm), eps, activation, contiguous(residual)};
}

int gate_code(const NormLinearParts& parts) { return parts.activation == "silu" ? AULE_ACT_SILU : AULE_ACT_GELU_TANH; }

std::vector<int64_t> checked_parts(const char* op, const at::Tensor& x, int64_t rows, int64_t k,
                                   const NormLinearParts& parts) {
  TORCH_CHECK(x.dim() >= 1 && x.size(-1) == k, op, ": expected x to have sizes [..., ", k, "], but got ", x.sizes());
  TORCH_CHECK(x.is_floating_point(), op, ": expected x to have a floating point dtype, but got ", x.scalar_type());
  TORCH_CHECK_VALUE(parts.activation == "none" || parts.activation == "silu" || parts.activation == "gelu_tanh", op,
                    ": expected activation 'none', 'silu' or 'gelu_tanh', but got '", parts.activation, "'");
  TORCH_CHECK(!parts.is_gated() || rows % 2 == 0, op, ": expected a weight of rows of a gate and as many others, but ",
              "it has ", rows);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = parts.is_gated() ? rows / 2 : rows;
  if (parts.bias)
    TORCH_CHECK(parts.bias->sizes() == at::IntArrayRef{rows} && parts.bias->scalar_type() == x.scalar_type(), op,
                ": expected bias to have sizes [", rows, "] and x's dtype, but got ", parts.bias->sizes(), " of ",
                parts.bias->scalar_type());
  if (parts.norm)
    TORCH_CHECK(parts.norm->sizes() == at::IntArrayRef{k} && parts.norm->scalar_type() == at::kFloat, op,
                ": expected norm to have sizes [", k, "] and dtype Float, but got ", parts.norm->sizes(), " of ",
                parts.norm->scalar_type());
  if (parts.residual)
    TORCH_CHECK(parts.residual->sizes() == sizes && parts.residual->scalar_type() == x.scalar_type(), op,
                ": expected residual to have the result's sizes ", at::IntArrayRef(sizes), " and x's dtype, but got ",
                parts.residual->sizes(), " of ", parts.residual->scalar_type());
  for (const auto* t : {&parts.bias, &parts.norm, &parts.residual})
    if (*t) check_same_device(op, {&x, &**t});
  return sizes;
}

at::Tensor normed(const at::Tensor& x, const NormLinearParts& parts) {
  if (!parts.norm) return x;
  return std::get<0>(at::_fused_rms_norm(x, parts.norm->sizes(), *parts.norm, parts.eps)).to(x.scalar_type());
}

at::Tensor gated_and_added(const at::Tensor& sums, const NormLinearParts& parts) {
  at::Tensor y = sums;
  if (parts.is_gated()) {
    const int64_t n = y.size(-1) / 2;
    y = gated_activation(y.narrow(-1, 0, n), y.narrow(-1, n, n), parts.activation);
  }
  return parts.residual ? y.add_(*parts.residual) : y;
}

at::Tensor norm_linear_act(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           const std::optional<at::Tensor>& norm, double eps, std::string_view activation,
                           const std::optional<at::Tensor>& residual) {
  const NormLinearParts parts = norm_linear_parts(bias, norm, eps, activation, residual);
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == x.scalar_type(), kOp,
              ": expected weight to have two dimensions and x's dtype, but got ", weight.sizes(), " of ",
              weight.scalar_type());
  check_same_device(kOp, {&x, &weight});
  const std::vector<int64_t> sizes = checked_parts(kOp, x, weight.size(0), weight.size(1), parts);
  const int64_t n = sizes.back(), k = weight.size(1);
  const int64_t m = c10::multiply_integers(sizes.begin(), sizes.end() - 1);
  if (m > 0 && n > 0 && m <= static_cast<int64_t>(kMostRows)) {
    const at::Tensor out = at::empty(sizes, x.options());
    const at::Tensor added = parts.residual ? parts.residual->view({m, n}) : at::Tensor();
    if (launch_fused({x.reshape({m, k}), added, out.view({m, n}), weight}, parts)) return out;
  }
  const at::Tensor rows = normed(x, parts);
  if (!parts.is_gated()) return linear_bias_act(rows, weight, parts.bias, "none", parts.residual);
  return gated_and_added(at::linear(rows, weight, parts.bias), parts);
}

}  // namespace aule::ops
