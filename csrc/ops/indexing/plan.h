// The iteration space of an indexing op. All ops that read or write through index tensors are such a plan, which one of
// two kernels runs: shaders/indexing/index_move.comp moves bits, index_combine.comp accumulates.
//
// `plain` is addressed by position alone (the output of a gather, the source of a scatter). `indexed` is addressed by
// position plus sum over k of index_k * step[k].
#pragma once
#include <array>

#include <c10/util/SmallVector.h>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

struct IndexPlan {
  static constexpr size_t kMaxDims = 8, kMaxIndices = 8;
  struct Dim {
    int64_t size = 1, plain_stride = 0, indexed_stride = 0;
    std::array<int64_t, kMaxIndices> index_stride{};
    // Positions along this dimension may have one destination in `indexed`.
    bool meets = false;
  };

  const char* op;  // for the error record
  at::Tensor plain, indexed;
  c10::SmallVector<at::Tensor, 4> index;
  c10::SmallVector<int64_t, 4> bound, step;
  c10::SmallVector<Dim, 8> dims;  // outermost first
  bool wrap = false;              // negative indices count from the end

  bool empty() const;
};

// One index tensor along `dim`. `index` has the shape of the iteration space, or, when `line`, is a vector along `dim`
// and the space has the shape of `plain`.
IndexPlan plan_along_dim(const char* op, const at::Tensor& plain, const at::Tensor& indexed, int64_t dim,
                         const at::Tensor& index, bool line, bool wrap);
// Indices into the flattened `indexed`, which must be contiguous; `plain` has the shape of `index`.
IndexPlan plan_flat(const char* op, const at::Tensor& plain, const at::Tensor& indexed, const at::Tensor& index);

enum class Combine : int {
#define COMBINE_OP(code, name) name = code,
#include "indexing/combine_ops.def"
#undef COMBINE_OP
};

void run_get(IndexPlan plan);
void run_put(IndexPlan plan);
// `alpha` is exact in float32 or int32 (index_add checks it).
void run_combine(IndexPlan plan, Combine op, const at::Scalar& alpha = 1);

}  // namespace aule::ops
