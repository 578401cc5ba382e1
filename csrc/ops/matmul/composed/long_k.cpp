#include "ops/matmul/composed/long_k.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/matmul/launch.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {

// Every kernel takes at least one value of k an iteration. Whole steps of gemm_simd_unrolled.comp where they fit.
LongKPlan plan_long_k(const Caps& caps) {
  const auto most = static_cast<int64_t>(longest_walk(caps));
  return {most >= 128 ? most / 128 * 128 : most};
}

void launch_long_k(const GemmCall& call, const LongKPlan& plan) {
  const at::Tensor& out = call.out;
  const bool halves = out.scalar_type() == at::kHalf || out.scalar_type() == at::kBFloat16;
  const auto wide = [&](const at::Tensor& t) { return halves && t.defined() ? t.to(at::kFloat) : t; };
  const at::Tensor sum = halves ? at::empty(out.sizes(), out.options().dtype(at::kFloat)) : out;
  const int64_t k = call.problem.k;
  for (int64_t at = 0; at < k; at += plan.slice) {
    const int64_t count = std::min(plan.slice, k - at);
    gemm(call.op, wide(call.a.narrow(2, at, count)), wide(call.b.narrow(1, at, count)), at == 0 ? wide(call.c) : sum,
         at == 0 ? call.beta : at::Scalar(1), call.alpha, sum);
  }
  apply_epilogue(sum, call.epilogue, Results::in_place);
  if (halves) out.copy_(sum);
}

}  // namespace aule::ops
