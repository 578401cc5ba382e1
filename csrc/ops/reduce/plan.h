// One reduction of any set of dimensions: shapes to a coalesced plan, plan to one or two launches of reduce.comp.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <bitset>
#include <vector>

namespace aule::ops {

enum class ReduceOp : int {
#define REDUCE_OP(code, name) name = code,
#include "reduce/reduce_ops.def"
#undef REDUCE_OP
};
// What is carried per output; see reduce.comp.
enum class ReduceKind { value, arg, moments, lse, minmax };

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  ReduceKind kind = ReduceKind::value;
  float arg = 0;         // p of a norm, correction of var
  bool minimum = false;  // kind arg: look for the minimum
};

constexpr size_t kMaxDims = 64;
using DimMask = std::bitset<kMaxDims>;

// The dimensions named by `dim`; none or an empty list means all. Checks range and repeats.
DimMask reduced_dims(at::OptionalIntArrayRef dim, int64_t ndim);
std::vector<int64_t> reduced_shape(const at::Tensor& self, const DimMask& mask, bool keepdim);

// Fills `out` (of the reduced shape, with or without the reduced dimensions, any strides and dtype) and `out2`:
// indices (arg, then `out` may be undefined), mean (moments, may be undefined), maximum (minmax).
// For kind arg the index counts the reduced dimensions in their logical order.
void run_reduction(const char* name, const Reduction& reduction, const at::Tensor& self, const DimMask& mask,
                   const at::Tensor& out, const at::Tensor& out2 = {});

}  // namespace aule::ops
