// Jacobi's rotations: what eigenvalues and singular values share. Matrices are [batch, rows, columns], column-major and
// dense.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace aule::ops {

at::Tensor empty_matrices(const at::Tensor& like, int64_t rows, int64_t columns);
at::Tensor empty_reals(const at::Tensor& like, at::IntArrayRef sizes);

struct JacobiStart {
  at::Tensor w;      // what is to be rotated
  at::Tensor h;      // the matrix divided by its scale, for eigenvalues alone
  at::Tensor scale;  // [batch]: a power of two
};
// The start for the upper triangles in the first rows of `r`: w = r^H / scale.
JacobiStart start_from_triangle(const at::Tensor& r);
// The start for Hermitian matrices, of which one triangle is read: w = h, or h + shift, positive definite.
JacobiStart start_from_hermitian(const at::Tensor& a, bool upper, bool shifted);

// Rotates the columns of w until they are orthogonal, without waiting to see whether they are.
void orthogonalize(const at::Tensor& w);
// LAPACK's info of each matrix: `code` where a value is not finite. (Rotations that never end, of what is noise beside
// other columns, are no failure.)
void write_info(const at::Tensor& values, int64_t code, const at::Tensor& info);
// The columns' 2-norms [batch, columns]; the columns are divided by them.
at::Tensor normalize_columns(const at::Tensor& w);
// v^H y / v^H v of the columns.
at::Tensor rayleigh_quotients(const at::Tensor& v, const at::Tensor& y);
// Values times their matrix's scale, and columns with them, into place. Undefined vectors: values alone.
void sort_columns(const at::Tensor& values, const at::Tensor& scale, const at::Tensor& vectors,
                  const at::Tensor& sorted_values, const at::Tensor& sorted_vectors, bool descending);

}  // namespace aule::ops
