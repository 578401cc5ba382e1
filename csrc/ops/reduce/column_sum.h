// Sums and means over the rows of a matrix, as the gradient of a bias is one (shaders/reduce/column_sum.comp).
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// out[o] = scale * sum of x[row, o], `x` being n columns, dense, in rows `row_stride` elements apart; `out` is dense.
// False, with nothing done, where the kernel does not serve: CPUs, few rows, types without 2 or 4 bytes, alignment.
bool column_sum(const char* name, const at::Tensor& x, int64_t rows, int64_t n, int64_t row_stride, double scale,
                const at::Tensor& out);

}  // namespace aule::ops
