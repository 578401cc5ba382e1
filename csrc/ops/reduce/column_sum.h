// Sums and means over the rows of a matrix, such as the gradient of a bias (shaders/reduce/column_sum.comp).
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/reduce/plan.h"

namespace aule::ops {

// out[o] = scale * sum of x[row, o], `x` being n columns, dense, in rows `plan.row_stride` elements apart; `out` is
// dense.
void column_sum(const char* name, const ColumnSumPlan& plan, const at::Tensor& x, int64_t rows, int64_t n, double scale,
                const at::Tensor& out);

}  // namespace aule::ops
