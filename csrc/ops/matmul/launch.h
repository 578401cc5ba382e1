// Parts that the launchers of plans share: a call, and the params that the kernels have in common.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/matmul/matmul.h"
#include "ops/matmul/route.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

TensorArgs with_work_of(const GemmProblem& g, TensorArgs args);

// One product: `problem` is turned as its plan says (GemmPlan::transposed), the tensors are as they were given.
struct GemmCall {
  const char* op;
  const DeviceProfile& profile;
  const MatrixUnits& units;
  GemmProblem problem;
  const at::Scalar &beta, &alpha;
  const at::Tensor &a, &b, &c, &out;  // c undefined: none
  const GemmEpilogue& epilogue;       // what the problem says of it, the residual as a tensor
  TensorArgs args;                    // the ranges that the problem reads and writes, and its arithmetic

  CommandStream& stream() const { return current(out); }
  // Another product of the same operands.
  GemmCall with(const GemmProblem& other) const { return with(other, epilogue); }
  GemmCall with(const GemmProblem& other, const GemmEpilogue& after) const {
    return {op, profile, units, other, beta, alpha, a, b, c, out, after, with_work_of(other, args)};
  }
};

// Params of a kernel with gemm_params.glsl's members.
template <class Params>
Params operands_of(const GemmProblem& g) {
  Params p{};
  p.a = g.a.address;
  p.b = g.b.address;
  p.c = g.c.address;
  p.out_ = g.out.address;
  p.a_batch = g.a.batch;
  p.b_batch = g.b.batch;
  p.c_batch = g.c.batch;
  p.out_batch = g.out.batch;
  p.a_m = static_cast<int>(g.a.row);
  p.a_k = static_cast<int>(g.a.col);
  p.b_k = static_cast<int>(g.b.row);
  p.b_n = static_cast<int>(g.b.col);
  p.c_m = static_cast<int>(g.c.row);
  p.c_n = static_cast<int>(g.c.col);
  p.out_m = static_cast<int>(g.out.row);
  p.out_n = static_cast<int>(g.out.col);
  p.m = g.m;
  if constexpr (requires { p.residual; }) p.residual = g.residual;
  if constexpr (requires { p.batches; }) {
    p.n = g.n;
    p.k = g.k;
    p.batches = g.batches;
  }
  return p;
}

// The same with alpha and beta as floats.
template <class Params>
Params params_of(const GemmCall& call) {
  auto p = operands_of<Params>(call.problem);
  p.alpha = call.alpha.toFloat();
  p.beta = call.problem.has_c ? call.beta.toFloat() : 0.0f;
  return p;
}

// Facts of a device, with the layout for the dtype `multiplied` (f32: none). A dtype's first call waits for the device.
MatrixUnits matrix_units(int device, DType multiplied);

GemmPlan plan_of(const at::Tensor& out, const GemmProblem& g);
// Launches a plan of the call's problem. An epilogue that the plan leaves apart is not applied.
void launch_plan(const GemmCall& call, const GemmPlan& plan);
// Launches the call's plan: `planned`, or the one that it makes.
void multiply(const GemmCall& call, std::optional<GemmPlan> planned = {});
void multiply(const char* op, const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha,
              const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Tensor& out,
              const GemmEpilogue& epilogue, const TensorArgs& args, std::optional<GemmPlan> planned = {});

// The epilogue by operators of its own, of a product's `sums`: in place, or with a result that autograd differentiates.
enum class Results : uint8_t { in_place, own };
at::Tensor apply_epilogue(const at::Tensor& sums, const GemmEpilogue& epilogue, Results results);

}  // namespace aule::ops
