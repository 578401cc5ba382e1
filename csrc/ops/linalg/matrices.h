// Helpers that factorizations and solvers share: batches of matrices as 3-D tensors, and the dtypes that they compute
// in.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// float32, float64, complex64, complex128 as their kernels' axis names them. Declines what the device cannot compute.
inline DType number_dtype(const char* op, const at::Tensor& t) {
  const DType dtype = real_or_complex_dtype_of(t.scalar_type(), op);
  const bool is_double = dtype == DType::f64 || dtype == DType::c128;
  TORCH_CHECK_NOT_IMPLEMENTED(is_double || dtype == DType::f32 || dtype == DType::c64, op, ": dtype ", t.scalar_type(),
                              " is not factorized on device aule");
  TORCH_CHECK_NOT_IMPLEMENTED(!is_double || caps_of(t).float64, op, ": ", t.scalar_type(),
                              " needs float64, which this device lacks");
  return dtype;
}

// The operands of PyTorch's stubs: numbers in memory, column by column. `t` may say of them that they are a transpose,
// or conjugates, which the stub's other arguments say too.
inline at::Tensor as_columns(const at::Tensor& t) {
  const at::Tensor stored = t.is_conj() ? t.conj() : t;
  return stored.stride(-2) > stored.stride(-1) ? stored.mT() : stored;
}

inline int64_t matrix_count(const at::Tensor& t) {
  int64_t count = 1;
  for (int64_t d = 0; d + 2 < t.dim(); ++d) count *= t.size(d);
  return count;
}

// The batch's sizes of matrices t, and `own` ones, to expand what several of them share.
inline std::vector<int64_t> with_batch_of(const at::Tensor& t, at::IntArrayRef own) {
  std::vector<int64_t> sizes = t.sizes().slice(0, t.dim() - 2).vec();
  sizes.insert(sizes.end(), own.begin(), own.end());
  return sizes;
}

// [..., m, n] as [batch, m, n]: of the same memory, to write to, or else perhaps a copy, to read.
inline at::Tensor matrices_of(const at::Tensor& t) {
  if (t.dim() == 3) return t;
  return t.view({matrix_count(t), t.size(-2), t.size(-1)});
}
inline at::Tensor matrices_to_read(const at::Tensor& t) {
  if (t.dim() == 3) return t;
  return t.reshape({matrix_count(t), t.size(-2), t.size(-1)});
}

// Strides and number of matrices [batch, m, n], where a kernel's params name them so.
template <class Params>
void set_matrices(Params& p, const at::Tensor& t) {
  p.batch_stride = t.stride(0);
  p.row = t.stride(1);
  p.col = t.stride(2);
  p.batches = static_cast<uint32_t>(t.size(0));
}

// [batch, n] of pivots that right-hand sides b may share, for each of the matrices of b.
inline at::Tensor pivots_for(const at::Tensor& pivots, const at::Tensor& b) {
  const int64_t n = pivots.size(-1);
  return pivots.expand(with_batch_of(b, {n})).reshape({matrix_count(b), n}).contiguous();
}

// Part of each matrix of a batch.
inline at::Tensor block(const at::Tensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return t.narrow(1, row, rows).narrow(2, column, columns);
}

// The row at which a matrix is cut in two: near the middle, in whole `unit`s. n > unit.
inline int64_t first_half(int64_t n, int64_t unit) { return (n + 2 * unit - 1) / (2 * unit) * unit; }

}  // namespace aule::ops
