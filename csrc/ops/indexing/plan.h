// Launches over an indexing op's iteration space: a pure function of sizes, strides, dtypes and what is known of the
// device. Two kernels run every plan: shaders/indexing/index_move.comp moves bits, index_combine.comp accumulates.
//
// `plain` is addressed by position alone (the output of a gather, the source of a scatter). `indexed` is addressed by
// position plus sum over k of index_k * step[k].
#pragma once
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

struct IndexSpace {
  static constexpr size_t kMaxDims = 8, kMaxIndices = 8;
  struct Dim {
    int64_t size = 1, plain_stride = 0, indexed_stride = 0;
    std::array<int64_t, kMaxIndices> index_stride{};
    bool meets = false;  // positions along this dimension may have one destination in `indexed`
  };

  c10::SmallVector<int64_t, 4> bound, step;  // of each index
  c10::SmallVector<Dim, 8> dims;             // outermost first

  bool empty() const;
  // Points of dimensions [first, last).
  uint64_t points(size_t first, size_t last) const;
};

enum class Combine : int {
#define COMBINE_OP(code, name) name = code,
#include "indexing/combine_ops.def"
#undef COMBINE_OP
};

struct IndexPlan {
  IndexSpace space;           // neighbours are merged
  size_t walked = 0;          // the last dimensions, which each invocation loops over
  uint32_t local = 0;         // invocations of a workgroup
  bool is_wide = false;       // more indices or dimensions, or larger strides, than push constants hold
  uint64_t longest_walk = 0;  // iterations that one invocation may have: each_part()

  size_t spread() const { return space.dims.size() - walked; }
};
struct IndexMovePlan : IndexPlan {
  DType dtype = DType::raw4;  // rows are moved in elements of up to 16 bytes
};
struct IndexCombinePlan : IndexPlan {
  bool is_ordered = false;  // one invocation adds up whatever has one destination; atomics otherwise
  bool native_add = false;  // the device's atomic addition of float32, no compare-and-swap
};

struct IndexMoveProblem {
  IndexSpace space;
  DType dtype = DType::raw4;  // of the element's size
  uint64_t addresses = 0;     // of `plain` and `indexed`, or-ed: what both are multiples of
  bool is_ordered = false;    // the last of several writers wins
};
IndexMovePlan index_move_plan(const DeviceProfile& profile, IndexMoveProblem problem);

struct IndexCombineProblem {
  IndexSpace space;
  DType dtype = DType::f32;  // of `indexed`
  Combine op = Combine::add;
  bool is_deterministic = false;
};
IndexCombinePlan index_combine_plan(const DeviceProfile& profile, IndexCombineProblem problem);

// True for 16-bit sums and products, which are then made in a float32 copy of the target: in bfloat16 a sum of ones
// stops at 256. False if a few values go into a large target, because its copy would cost far more.
bool combines_in_float32(DType dtype, Combine op, int64_t indexed_elems, int64_t plain_elems);

std::string text_of(const IndexMovePlan& plan);
std::string text_of(const IndexCombinePlan& plan);

// The begin of a part of a plan, in elements.
struct IndexOffset {
  int64_t plain = 0, indexed = 0;
  std::array<int64_t, IndexSpace::kMaxIndices> index{};
};

// Calls fn(space, offset) for parts with loops that one invocation may have, in the loop's order. The parts, dispatched
// one after another, are the whole loop.
template <class Fn>
void each_part(const IndexPlan& plan, const IndexSpace& space, const Fn& fn, const IndexOffset& at = {}) {
  const size_t first = space.dims.size() - plan.walked;
  const uint64_t steps = space.points(first, space.dims.size());
  if (steps <= plan.longest_walk) {
    fn(space, at);
    return;
  }
  size_t d = first;
  while (space.dims[d].size == 1) ++d;
  const IndexSpace::Dim& dim = space.dims[d];
  const uint64_t inner = steps / static_cast<uint64_t>(dim.size);
  const int64_t part = std::max<int64_t>(1, static_cast<int64_t>(plan.longest_walk / inner));
  for (int64_t begin = 0; begin < dim.size; begin += part) {
    IndexSpace piece = space;
    piece.dims[d].size = std::min(part, dim.size - begin);
    IndexOffset from = at;
    from.plain += begin * dim.plain_stride;
    from.indexed += begin * dim.indexed_stride;
    for (size_t k = 0; k < space.bound.size(); ++k) from.index[k] += begin * dim.index_stride[k];
    each_part(plan, piece, fn, from);
  }
}
template <class Fn>
void each_part(const IndexPlan& plan, const Fn& fn) {
  each_part(plan, plan.space, fn);
}

}  // namespace aule::ops
