// One reduction of any set of dimensions: checked, planned (plan.h) and launched.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <vector>

#include "ops/reduce/plan.h"

namespace aule::ops {

// The dimensions named by `dim`; none or an empty list means all. Checks range and repeats.
DimMask reduced_dims(at::OptionalIntArrayRef dim, int64_t ndim);
std::vector<int64_t> reduced_shape(const at::Tensor& self, const DimMask& mask, bool keepdim);

// Fills `out` (of the reduced shape, with or without the reduced dimensions, any strides and dtype) and `out2`:
// indices (arg, then `out` may be undefined), mean (moments, may be undefined), maximum (minmax).
// For kind arg the index counts the reduced dimensions in their logical order.
void run_reduction(const char* name, const Reduction& reduction, const at::Tensor& self, const DimMask& mask,
                   const at::Tensor& out, const at::Tensor& out2 = {});

}  // namespace aule::ops
