// Runs the checked arguments of an indexing op: all ops that read or write through index tensors are such a call.
#pragma once
#include "ops/indexing/plan.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

struct IndexCall {
  const char* op;  // for the error record
  at::Tensor plain, indexed;
  c10::SmallVector<at::Tensor, 4> index;
  IndexSpace space;
  bool wrap = false;  // negative indices count from the end
};

// One index tensor along `dim`. `index` has the shape of the iteration space, or, when `line`, is a vector along `dim`
// and the space has the shape of `plain`.
IndexCall call_along_dim(const char* op, const at::Tensor& plain, const at::Tensor& indexed, int64_t dim,
                         const at::Tensor& index, bool line, bool wrap);
// Indices into the flattened `indexed`, which must be contiguous; `plain` has the shape of `index`.
IndexCall flat_call(const char* op, const at::Tensor& plain, const at::Tensor& indexed, const at::Tensor& index);

void run_get(IndexCall call);
void run_put(IndexCall call);
// `alpha` is exact in float32 or int32 (index_add checks it).
void run_combine(IndexCall call, Combine op, const at::Scalar& alpha = 1);

}  // namespace aule::ops
