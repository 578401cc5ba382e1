// Hermitian matrices as tridiagonal ones, and the eigenvalues and eigenvectors of these. Matrices are
// [batch, rows, columns], column-major and dense.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/eigen/plan.h"

namespace aule::ops {

// A = Q T Q^H, T real.
struct Tridiagonal {
  at::Tensor diagonal, beside;  // of T: [batch, n], [batch, n - 1]
  at::Tensor vectors, tau;      // the reflections of Q, from row 1 on, as geqrf's; [batch, n - 1]
};
// Overwrites `a`, whose elements are at most near 1.
Tridiagonal tridiagonalize(const at::Tensor& a, const TridiagonalPlan& plan);

struct Eigenpairs {
  at::Tensor values, vectors;  // [batch, n], in no order; [batch, n, n]
};
// Of T. What is not finite counts as 0.
Eigenpairs eigenpairs(const Tridiagonal& t, const TridiagonalPlan& plan);

// Q z.
at::Tensor transformed_back(const Tridiagonal& t, const at::Tensor& z);

}  // namespace aule::ops
