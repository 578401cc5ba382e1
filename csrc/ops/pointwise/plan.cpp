#include "ops/pointwise/plan.h"

#include "core/raw_dtype.h"
#include "ops/tensor/plan_text.h"
#include "ops/tensor/strided_params.h"

namespace aule::ops {
namespace {

static_assert(kSimdElems == 4 * 8 * kDenseVec);
constexpr int kComplexVec = 4;           // elements of one invocation of a dense complex kernel
constexpr int64_t kAcrossMin = 1 << 20;  // fewer are served by caches; an estimate
constexpr int64_t kSimdMin = 1 << 16;    // fewer elements are not worth a pipeline of their own

template <int N>
bool all_aligned(const PointwiseProblem<N>& problem, const std::array<int64_t, N>& offsets) {
  for (size_t k = 0; k < N; ++k) {
    const PointwiseOperand& o = problem.operands[k];
    const uint64_t address = o.address + static_cast<uint64_t>(offsets[k]) * dtype_size(o.dtype);
    if (!o.by_value && !vec_aligned(address, o.dtype, kDenseVec)) return false;
  }
  return true;
}

}  // namespace

template <int N>
std::optional<AcrossPlan> across_plan(const DeviceProfile& profile, const StridedShape<N>& shape, int k,
                                      uint64_t address, size_t size) {
  if (shape.numel() < kAcrossMin || !shape.fits_kernel() || shape.strides[0][0] != 1 || shape.strides[k][0] == 1)
    return {};
  AcrossPlan plan;
  int64_t dense = 1;
  for (int i = 0; i < shape.ndim; ++i) {
    if (shape.strides[k][i] == 0 && shape.sizes[i] != 1) return {};  // one element for many: caches serve it
    plan.shape.push(shape.sizes[i], {dense, shape.strides[k][i]});
    dense *= shape.sizes[i];
  }
  plan.shape.normalize();
  const auto transpose = transpose_plan(profile, raw_dtype(size), plan.shape, address);
  if (!transpose) return {};
  plan.transpose = *transpose;
  return plan;
}

template <int N>
PointwisePlan<N> pointwise_plan(const DeviceProfile& profile, const PointwiseProblem<N>& problem,
                                const StridedShape<N>& piece, const std::array<int64_t, N>& offsets) {
  PointwisePlan<N> plan;
  const bool in_bits = computes_in_double_bits(profile, problem.arithmetic),
             dense = piece.dense() && !in_bits && !problem.is_special;
  plan.form = in_bits              ? PointwiseForm::double_bits
              : problem.is_special ? PointwiseForm::special
              : dense              ? PointwiseForm::dense
                                   : PointwiseForm::strided;
  int64_t elems = piece.sizes[0];
  if (dense && elems >= kSimdMin && profile.software_simd() && profile.subgroup_size == 8 &&
      problem.arithmetic == DType::f32 && all_aligned<N>(problem, offsets)) {
    plan.simd_elems = elems / kSimdElems * kSimdElems;
    elems -= plan.simd_elems;
  }
  const int dense_vec = is_complex(problem.arithmetic) ? kComplexVec : kDenseVec, vec = dense ? dense_vec : kStridedVec;
  bool all_packed = true, same_size = true;
  const size_t out_size = dtype_size(problem.operands[0].dtype);
  for (size_t k = 0; k < N; ++k) {
    const PointwiseOperand& o = problem.operands[k];
    OperandMode& mode = plan.modes[k];
    mode = OperandMode::by_value;
    if (o.by_value) continue;
    const size_t size = dtype_size(o.dtype);
    const uint64_t address = o.address + static_cast<uint64_t>(offsets[k] + plan.simd_elems) * size;
    mode = piece.packed(static_cast<int>(k), vec) && vec_aligned(address, o.dtype, vec) ? OperandMode::packed
                                                                                        : OperandMode::strided;
    if (k > 0 && !dense && piece.strides[k][0] == 0) mode = OperandMode::constant;
    all_packed = all_packed && mode == OperandMode::packed;
    same_size = same_size && size == out_size;
  }
  if (!dense) {
    plan.groups = narrow<uint32_t>(ceil_div(strided_vecs(piece), kStridedLocal));
    return plan;
  }
  const int64_t group = dense_vec * kDenseLocal;
  plan.skips_checks = !profile.is_software() && all_packed && elems < (int64_t{1} << 31) - group;
  plan.interleaved = plan.skips_checks && same_size && out_size >= 2;
  plan.groups = narrow<uint32_t>(ceil_div(elems, group));
  return plan;
}

template <int N>
std::string text_of(const PointwisePlan<N>& plan) {
  static constexpr const char* kForms[] = {"dense", "strided", "special", "double bits"};
  static constexpr const char* kModes[] = {" strided", " packed", " value", " constant"};
  std::string text;
  for (int64_t groups = plan.simd_elems / kSimdElems; groups > 0;) {
    const Grid grid = simd_grid(groups);
    const int64_t each = int64_t{grid.x} * grid.y, times = groups / each;
    text += "simd " + (times == 1 ? "" : std::to_string(times) + " times ") + grid_text(grid) + ", ";
    groups -= times * each;
  }
  if (plan.groups == 0) return text + "nothing left";
  text += kForms[static_cast<size_t>(plan.form)];
  for (const OperandMode mode : plan.modes) text += kModes[static_cast<size_t>(mode)];
  if (plan.skips_checks) text += " skips checks";
  if (plan.interleaved) text += " interleaved";
  return text + " " + grid_text(linear_grid(plan.groups));
}

#define INSTANTIATE(N)                                                                                           \
  template std::optional<AcrossPlan> across_plan<N>(const DeviceProfile&, const StridedShape<N>&, int, uint64_t, \
                                                    size_t);                                                     \
  template PointwisePlan<N> pointwise_plan<N>(const DeviceProfile&, const PointwiseProblem<N>&,                  \
                                              const StridedShape<N>&, const std::array<int64_t, N>&);            \
  template std::string text_of(const PointwisePlan<N>&);
INSTANTIATE(2)
INSTANTIATE(3)
INSTANTIATE(4)
#undef INSTANTIATE

}  // namespace aule::ops
