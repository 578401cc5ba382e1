#include "ops/matmul/route.h"

#include <algorithm>
#include <limits>

#include "ops/matmul/composed/aligned_rows.h"
#include "ops/matmul/composed/long_k.h"
#include "ops/matmul/kernels/bf16x3.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/kernels/gemv.h"
#include "ops/matmul/kernels/int8.h"
#include "ops/matmul/kernels/simd.h"
#include "ops/matmul/kernels/simt.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

bool fits_i32(const MatrixView& v) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  return v.row <= kMax && v.col <= kMax;
}

}  // namespace

DType multiplied_dtype(const GemmProblem& g, const Overrides& overrides) {
  if (g.in == DType::f16 || g.in == DType::bf16) return g.in;
  if (g.in != DType::f32 || g.precision == Float32Precision::highest) return DType::f32;
  return piece_dtype(overrides);
}

DType piece_dtype(const Overrides& overrides) {
  return overrides.float32_pieces == PieceType::float16 ? DType::f16 : DType::bf16;
}

namespace {

std::optional<GemmPlan> plan_matrix_units(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                                          const Overrides& overrides) {
  std::optional<GemmPlan> plan = plan_coopmat(profile, units, g);
  if (!plan) return plan;
  std::optional<GemmPlan> aligned = plan_aligned_rows(profile, g, *plan, overrides);
  if (aligned) return aligned;
  const std::optional<GemmPlan> parts = plan_parts(profile, units, g, *plan, overrides);
  return parts ? parts : plan;
}

GemmPlan kernel_plan(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                     const Overrides& overrides) {
  if (!may_walk(profile, g.k)) return {.kernel = plan_long_k(profile)};
  if (!fits_i32(g.out) || (g.has_c && !fits_i32(g.c))) return {.kernel = DenseOutPlan{}};
  if (g.in != g.result && g.result == DType::f32) {  // of the kernels for 16-bit operands only one writes float32
    const auto plan = plan_matrix_units(profile, units, g, overrides);
    return plan ? *plan : GemmPlan{.kernel = WidenedPlan{}};
  }
  if (const auto plan = plan_int8(profile, units, g)) return *plan;
  if (const auto plan = plan_few_rows(profile, units, g)) return *plan;
  if (const auto plan = plan_matrix_units(profile, units, g, overrides)) return *plan;
  if (const auto plan = plan_bf16x3(profile, units, g, overrides)) return *plan;
  if (const auto plan = plan_simt_large(profile, g)) return *plan;
  if (g.in == DType::f64 || !is_floating(g.in)) return plan_scalar(g);
  if (is_simd_device(profile)) return plan_simd(g);
  constexpr uint32_t kLongK = 256;  // of a shorter one, a second kernel takes longer than a split saves
  if (const auto plan = g.k < kLongK ? std::nullopt : plan_simt_splits(profile, g, 2)) return *plan;
  return std::min(g.m, g.n) <= 4 ? plan_gemv(g) : plan_simt(g);
}

}  // namespace

GemmPlan gemm_plan(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                   const Overrides& overrides) {
  GemmPlan plan = kernel_plan(profile, units, g, overrides);
  if (g.has_epilogue()) plan.epilogue = plan.has_no_epilogue() ? GemmPlan::Epilogue::apart : GemmPlan::Epilogue::fused;
  return plan;
}

}  // namespace aule::ops
