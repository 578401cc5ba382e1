#include "ops/linalg/eigh.h"

#include "ops/linalg/jacobi.h"
#include "ops/linalg/qr.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {

void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper, bool compute_v) {
  infos.zero_();
  if (vectors.numel() == 0) return;
  const at::Tensor a = as_one_batch(vectors);
  const int64_t n = a.size(1);
  const JacobiStart start = start_from_hermitian(a, upper);
  const at::Tensor& v = start.w;
  orthogonalize(v);
  normalize_columns(v);
  const at::Tensor hv = empty_matrices(a, n, n);
  gemm("linalg_eigh", start.h, v, {}, 0, 1, hv);
  // Quotients are as exact as the square of the vectors' errors, and know nothing of the shift.
  sort_columns(rayleigh_quotients(v, hv), start.scale, compute_v ? v : at::Tensor(), values.view({a.size(0), n}), a,
               false);
}

}  // namespace aule::ops
