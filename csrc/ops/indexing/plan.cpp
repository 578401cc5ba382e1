#include "ops/indexing/plan.h"

#include <limits>

#include "core/raw_dtype.h"
#include "kernels_indexing.gen.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

using Dim = IndexSpace::Dim;

bool mergeable(const Dim& outer, const Dim& inner, size_t indices) {
  if (outer.meets != inner.meets) return false;
  if (outer.plain_stride != inner.plain_stride * inner.size) return false;
  if (outer.indexed_stride != inner.indexed_stride * inner.size) return false;
  for (size_t k = 0; k < indices; ++k)
    if (outer.index_stride[k] != inner.index_stride[k] * inner.size) return false;
  return true;
}

// Drops dimensions of size 1 and merges neighbours. With `ordered`, dimensions along which destinations may be equal
// become the last. Returns how many dimensions each invocation loops over.
size_t merge_dims(IndexSpace& space, bool ordered) {
  auto& dims = space.dims;
  dims.erase(std::remove_if(dims.begin(), dims.end(), [](const Dim& d) { return d.size == 1; }), dims.end());
  if (ordered) {
    std::stable_partition(dims.begin(), dims.end(), [](const Dim& d) { return !d.meets; });
  } else {
    for (auto& d : dims) d.meets = false;
  }
  size_t kept = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (kept > 0 && mergeable(dims[kept - 1], dims[i], space.bound.size())) {
      const int64_t size = dims[kept - 1].size * dims[i].size;
      dims[kept - 1] = dims[i];
      dims[kept - 1].size = size;
    } else {
      dims[kept++] = dims[i];
    }
  }
  dims.resize(kept);
  return static_cast<size_t>(std::count_if(dims.begin(), dims.end(), [](const Dim& d) { return d.meets; }));
}

// Moves whole rows in elements of up to 16 bytes, if the innermost dimension is dense on both sides and all other
// strides and both addresses are multiples of the wider element.
DType widen(IndexSpace& space, DType narrow, uint64_t addresses) {
  const auto bytes = static_cast<int64_t>(dtype_size(narrow));
  if (space.dims.empty() || space.dims.back().meets) return narrow;
  Dim& row = space.dims.back();
  if (row.plain_stride != 1 || row.indexed_stride != 1) return narrow;
  for (size_t k = 0; k < space.bound.size(); ++k)
    if (row.index_stride[k] != 0) return narrow;
  for (const int64_t wide : {16, 8, 4, 2}) {
    if (wide <= bytes) break;
    const int64_t ratio = wide / bytes;
    bool fits = row.size % ratio == 0 && addresses % static_cast<uint64_t>(wide) == 0;
    for (size_t d = 0; d + 1 < space.dims.size(); ++d)
      fits = fits && space.dims[d].plain_stride % ratio == 0 && space.dims[d].indexed_stride % ratio == 0;
    for (const int64_t s : space.step) fits = fits && s % ratio == 0;
    if (!fits) continue;
    row.size /= ratio;
    for (size_t d = 0; d + 1 < space.dims.size(); ++d) {
      space.dims[d].plain_stride /= ratio;
      space.dims[d].indexed_stride /= ratio;
    }
    for (int64_t& s : space.step) s /= ratio;
    return raw_dtype(static_cast<size_t>(wide));
  }
  return narrow;
}

bool fits_i32(int64_t x) {
  return x >= std::numeric_limits<int32_t>::min() && x <= std::numeric_limits<int32_t>::max();
}

bool fits_push_constants(const IndexSpace& space) {
  constexpr size_t kDims = sizeof(IndexMoveParams::size) / sizeof(uint32_t);
  if (space.bound.size() > 1 || space.dims.size() > kDims || !fits_i32(space.bound[0]) || !fits_i32(space.step[0]))
    return false;
  return std::all_of(space.dims.begin(), space.dims.end(), [](const Dim& d) {
    return fits_i32(d.plain_stride) && fits_i32(d.indexed_stride) && fits_i32(d.index_stride[0]);
  });
}

// Once the space and `walked` are final.
void finish(const DeviceProfile& profile, IndexPlan& plan) {
  // A software device runs one workgroup per thread. Long loops are therefore spread over many small workgroups.
  plan.local = plan.walked > 0 && profile.is_software() ? 8 : 128;
  plan.is_wide = !fits_push_constants(plan.space);
  plan.longest_walk = longest_walk(profile);
}

// Invocations of an ordered plan.
int64_t ordered_width(const IndexSpace& space) {
  int64_t n = 1;
  for (const auto& d : space.dims)
    if (!d.meets) n *= d.size;
  return n;
}

// "spread 20x64 walked 700 local 8 wide dispatches 2"
std::string text_of(const IndexPlan& plan) {
  std::string text;
  const auto sizes = [&](const char* name, size_t first, size_t last) {
    if (first == last) return;
    text += name;
    for (size_t d = first; d < last; ++d) text += (d == first ? " " : "x") + std::to_string(plan.space.dims[d].size);
  };
  sizes(" spread", 0, plan.spread());
  sizes(" walked", plan.spread(), plan.space.dims.size());
  text += " local " + std::to_string(plan.local);
  if (plan.is_wide) text += " wide";
  int dispatches = 0;
  each_part(plan, [&](const IndexSpace&, const IndexOffset&) { ++dispatches; });
  return dispatches == 1 ? text : text + " dispatches " + std::to_string(dispatches);
}

}  // namespace

bool IndexSpace::empty() const {
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.size == 0; });
}

uint64_t IndexSpace::points(size_t first, size_t last) const {
  uint64_t n = 1;
  for (size_t d = first; d < last; ++d) n *= static_cast<uint64_t>(dims[d].size);
  return n;
}

IndexMovePlan index_move_plan(const DeviceProfile& profile, IndexMoveProblem problem) {
  IndexMovePlan plan;
  plan.space = std::move(problem.space);
  plan.walked = merge_dims(plan.space, problem.is_ordered);
  plan.dtype = widen(plan.space, problem.dtype, problem.addresses);
  finish(profile, plan);
  return plan;
}

IndexCombinePlan index_combine_plan(const DeviceProfile& profile, IndexCombineProblem problem) {
  const bool adds = problem.op == Combine::add;
  // Sums and products of floats depend on the order. Of the wide dtypes only integer sums have an atomic form.
  const bool no_atomic = dtype_size(problem.dtype) >= 8 && !(problem.dtype == DType::i64 && adds);
  const bool deterministic =
      problem.is_deterministic && is_floating(problem.dtype) && (adds || problem.op == Combine::mul);
  // On a software device atomics run lane by lane, but neighbouring columns fill a vector.
  const bool columns = profile.is_software() && ordered_width(problem.space) >= 64;
  IndexCombinePlan plan;
  plan.space = std::move(problem.space);
  plan.is_ordered = no_atomic || deterministic || columns;
  plan.walked = merge_dims(plan.space, plan.is_ordered);
  plan.native_add = problem.dtype == DType::f32 && adds && !plan.is_ordered && profile.float32_atomic_add;
  finish(profile, plan);
  return plan;
}

bool combines_in_float32(DType dtype, Combine op, int64_t indexed_elems, int64_t plain_elems) {
  return (dtype == DType::f16 || dtype == DType::bf16) && (op == Combine::add || op == Combine::mul) &&
         indexed_elems <= std::max<int64_t>(int64_t{1} << 24, 8 * plain_elems);
}

std::string text_of(const IndexMovePlan& plan) {
  return "move elements of " + std::to_string(dtype_size(plan.dtype)) + text_of(static_cast<const IndexPlan&>(plan));
}
std::string text_of(const IndexCombinePlan& plan) {
  return (plan.is_ordered   ? "ordered"
          : plan.native_add ? "native atomics"
                            : "atomics") +
         text_of(static_cast<const IndexPlan&>(plan));
}

}  // namespace aule::ops
