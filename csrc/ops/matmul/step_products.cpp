#include "ops/matmul/step_products.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <variant>

#include "core/environment.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/kernels/simt.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

// The plan's splits where its sums can be left as they are; 0: they cannot.
uint32_t splits_of(const GemmPlan& plan) {
  if (plan.transposed) return 0;
  if (const auto* simt = std::get_if<SimtSplitsPlan>(&plan.kernel)) return simt->splits;
  if (const auto* x = std::get_if<CoopMatPlan>(&plan.kernel))
    if (x->share == 0 && !x->row_classes) return x->splits;
  return 0;
}

// A plan depends on sizes, strides and on how addresses are aligned.
bool is_alike(const GemmProblem& x, const GemmProblem& y) {
  return x.m == y.m && x.a.address % 16 == y.a.address % 16 && x.a.batch % 8 == y.a.batch % 8 && x.a.row == y.a.row;
}

}  // namespace

StepProducts::StepProducts(const char* op, at::Tensor b)
    : op_(op), b_(std::move(b)), profile_(profile_of(b_)), dtype_(dtype_of(b_, op)) {
  units_ = matrix_units(static_cast<int>(b_.get_device()), dtype_);
}

GemmProblem StepProducts::problem(const StepRows& a, uint32_t m) const {
  GemmProblem g;
  g.in = g.result = dtype_of(b_, op_);
  g.batches = static_cast<uint32_t>(b_.size(0));
  g.m = m;
  g.n = static_cast<uint32_t>(b_.size(2));
  g.k = static_cast<uint32_t>(b_.size(1));
  g.a = {address_of(a.of) + static_cast<uint64_t>(a.offset) * dtype_size(g.in), a.batch, a.row, 1};
  g.b = {address_of(b_), b_.stride(0), b_.stride(1), b_.stride(2)};
  g.out = {0, int64_t{m} * g.n, g.n, 1};
  return g;
}

void StepProducts::plan_for(const GemmProblem& g) {
  plan_ = gemm_plan(profile_, units_, g, overrides());
  // A split alone is no reason to add sums, but here they are added anyway.
  if (std::holds_alternative<SimtPlan>(plan_->kernel)) {
    const auto split = plan_simt_splits(profile_, g, 1);
    if (split && !split->transposed) plan_ = split;
  }
  planned_ = g;
  const uint32_t splits = splits_of(*plan_);
  splits_ = std::max(splits, 1u);
  dtype_ = splits != 0 ? DType::f32 : g.in;
  apart_ = splits == 0 && plan_->is_composed();
}

void StepProducts::reserve(uint32_t m) {
  const int64_t elems = int64_t{splits_} * b_.size(0) * m * b_.size(2);
  const auto type = dtype_ == DType::f32 ? at::kFloat : b_.scalar_type();
  if (!sums_.defined() || sums_.scalar_type() != type || sums_.numel() < elems)
    sums_ = at::empty({elems}, b_.options().dtype(type));
}

void StepProducts::multiply(const StepRows& a, uint32_t m) {
  GemmProblem g = problem(a, m);
  if (!plan_ || !is_alike(g, planned_)) plan_for(g);
  reserve(m);
  if (apart_) {
    multiply_apart(a, m);
    return;
  }
  TensorArgs args;
  args.read(a.of);
  args.read(b_);
  const at::Scalar zero = 0, one = 1;
  const at::Tensor none;
  const GemmEpilogue no_epilogue;
  const auto call = [&](const TensorArgs& ranges) {
    return GemmCall{op_, profile_, units_, g, zero, one, a.of, b_, none, sums_, no_epilogue, with_work_of(g, ranges)};
  };
  const uint64_t sums = args.write(sums_);
  if (splits_of(*plan_) == 0) {
    g.out.address = sums;
    launch_plan(call(args), *plan_);
  } else if (const auto* simt = std::get_if<SimtSplitsPlan>(&plan_->kernel)) {
    launch_simt_split_sums(call(args), *simt, sums, with_work_of(g, args));
  } else {
    launch_coopmat_sums(call(args), std::get<CoopMatPlan>(plan_->kernel), sums, with_work_of(g, args));
  }
}

void StepProducts::multiply_apart(const StepRows& a, uint32_t m) {
  const int64_t n = b_.size(2), k = b_.size(1);
  for (int64_t i = 0; i < b_.size(0); ++i) {
    const int64_t offset = a.of.storage_offset() + a.offset + i * a.batch;
    const at::Tensor rows = a.of.as_strided({1, m, k}, {int64_t{m} * a.row, a.row, 1}, offset);
    gemm(op_, rows, b_.narrow(0, i, 1), {}, 0, 1, sums_.narrow(0, i * m * n, m * n).view({1, m, n}));
  }
}

}  // namespace aule::ops
