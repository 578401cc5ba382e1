// Sums and means over the rows of a matrix, such as the gradient of a bias (shaders/reduce/column_sum.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// out[o] = scale * sum of x[row, o], `x` being n columns, dense, in rows `row_stride` elements apart; `out` is dense.
// Returns false and does nothing for software devices, few rows, dtypes not of 2 or 4 bytes, and unaligned addresses.
bool column_sum(const char* name, const at::Tensor& x, int64_t rows, int64_t n, int64_t row_stride, double scale,
                const at::Tensor& out);

}  // namespace aule::ops
