#include "ops/linalg/eigh.h"

#include <ATen/ops/_linalg_eigh_native.h>
#include <ATen/ops/empty.h>

#include "ops/linalg/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/structured.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {

void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper, bool compute_v) {
  infos.zero_();
  if (vectors.numel() == 0) return;
  const at::Tensor a = matrices_of(vectors);
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

std::tuple<at::Tensor&, at::Tensor&> linalg_eigh_out(const at::Tensor& a, std::string_view uplo, bool compute_v,
                                                     at::Tensor& values, at::Tensor& vectors) {
  number_dtype("linalg_eigh", a);
  Structured<at::native::structured__linalg_eigh_out, 2> op({&values, &vectors});
  op.run(a, uplo, compute_v);
  return {values, vectors};
}

}  // namespace aule::ops
