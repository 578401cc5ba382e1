#include "ops/matmul/launch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <utility>

#include "core/environment.h"
#include "ops/coopmat/layout.h"
#include "ops/matmul/composed/aligned_rows.h"
#include "ops/matmul/composed/long_k.h"
#include "ops/matmul/kernels/bf16x3.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/kernels/gemv.h"
#include "ops/matmul/kernels/int8.h"
#include "ops/matmul/kernels/simd.h"
#include "ops/matmul/kernels/simt.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

struct Launcher {
  const GemmCall& call;

  void operator()(const ScalarPlan& plan) const { launch_scalar(call, plan); }
  void operator()(const SimdPlan& plan) const { launch_simd(call, plan); }
  void operator()(const SimdUnrolledPlan& plan) const { launch_simd_unrolled(call, plan); }
  void operator()(const GemvPlan& plan) const { launch_gemv(call, plan); }
  void operator()(const GemvWidePlan& plan) const { launch_gemv_wide(call, plan); }
  void operator()(const GemvCoopMatPlan& plan) const { launch_gemv_coopmat(call, plan); }
  void operator()(const SimtPlan& plan) const { launch_simt(call, plan); }
  void operator()(const SimtLargePlan& plan) const { launch_simt_large(call, plan); }
  void operator()(const SimtSplitsPlan& plan) const { launch_simt_splits(call, plan); }
  void operator()(const CoopMatPlan& plan) const { launch_coopmat(call, plan); }
  void operator()(const Int8Plan& plan) const { launch_int8(call, plan); }
  void operator()(const Bf16x3Plan& plan) const { launch_bf16x3(call, plan); }
  void operator()(const LongKPlan& plan) const { launch_long_k(call, plan); }
  void operator()(const AlignedRowsPlan& plan) const { launch_aligned_rows(call, plan); }
  void operator()(const PartsPlan& plan) const { launch_parts(call, plan); }
  void operator()(const DenseOutPlan&) const {
    const at::Tensor dense = at::empty(call.out.sizes(), call.out.options());
    gemm(call.op, call.a, call.b, call.c.defined() ? call.c.contiguous() : call.c, call.beta, call.alpha, dense,
         call.epilogue);
    call.out.copy_(dense);
  }
  void operator()(const WidenedPlan&) const {
    gemm(call.op, call.a.to(at::kFloat), call.b.to(at::kFloat), call.c, call.beta, call.alpha, call.out, call.epilogue);
  }
};

}  // namespace

TensorArgs with_work_of(const GemmProblem& g, TensorArgs args) {
  args.work = {2.0 * g.batches * g.m * g.n * g.k, g.in};
  return args;
}

void multiply(const char* op, const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha,
              const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Tensor& out,
              const GemmEpilogue& epilogue, const TensorArgs& args, std::optional<GemmPlan> planned) {
  const MatrixUnits units = matrix_units(static_cast<int>(out.get_device()), multiplied_dtype(g, overrides()));
  multiply({op, profile_of(out), units, g, beta, alpha, a, b, c, out, epilogue, with_work_of(g, args)},
           std::move(planned));
}

at::Tensor apply_epilogue(const at::Tensor& sums, const GemmEpilogue& epilogue, Results results) {
  const bool own = results == Results::own;
  at::Tensor y = sums;
  switch (epilogue.activation) {
    case Activation::relu: y = own ? at::relu(y) : at::relu_(y); break;
    case Activation::gelu: y = own ? at::gelu(y, "none") : at::gelu_(y, "none"); break;
    case Activation::gelu_tanh: y = own ? at::gelu(y, "tanh") : at::gelu_(y, "tanh"); break;
    case Activation::silu: y = own ? at::silu(y) : at::silu_(y); break;
    case Activation::none: break;
  }
  if (!epilogue.residual.defined()) return y;
  return own ? y.add(epilogue.residual) : y.add_(epilogue.residual);
}

MatrixUnits matrix_units(int device, DType multiplied) {
  const Caps& caps = caps_of(device);
  MatrixUnits units{.layout = {}, .int8_refuted = refuted_int8_tiles(device)};
  const bool asks = caps.cooperative_matrix && !caps.software_simd();  // the probe is a kernel
  if (asks && multiplied != DType::f32) units.layout = matrix_layout(device, multiplied);
  return units;
}

GemmPlan plan_of(const at::Tensor& out, const GemmProblem& g) {
  const MatrixUnits units = matrix_units(static_cast<int>(out.get_device()), multiplied_dtype(g, overrides()));
  return gemm_plan(profile_of(out), units, g, overrides());
}

void launch_plan(const GemmCall& call, const GemmPlan& plan) {
  const bool apart = plan.epilogue == GemmPlan::Epilogue::apart;
  GemmProblem problem = plan.transposed ? call.problem.transposed() : call.problem;
  if (apart) {
    problem.activation = Activation::none;
    problem.has_residual = false;
  }
  const GemmEpilogue none;
  const GemmCall own = call.with(problem, apart ? none : call.epilogue);
  std::visit(Launcher{own}, plan.kernel);
}

void multiply(const GemmCall& call, std::optional<GemmPlan> planned) {
  GemmPlan plan = planned ? *std::move(planned) : gemm_plan(call.profile, call.units, call.problem, overrides());
  const auto index = static_cast<int>(call.out.get_device());
  // Drivers' int8 matrices are young: a tile is tried before it is used, and one that is wrong is planned without.
  for (MatrixUnits units = call.units; const auto* int8 = std::get_if<Int8Plan>(&plan.kernel);) {
    if (is_exact_tile(index, *int8)) break;
    units.int8_refuted |= 1u << int8->tile_index;
    plan = gemm_plan(call.profile, units, call.problem, overrides());
  }
  launch_plan(call, plan);
  if (plan.epilogue == GemmPlan::Epilogue::apart) apply_epilogue(call.out, call.epilogue, Results::in_place);
}

}  // namespace aule::ops
