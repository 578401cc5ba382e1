#include "ops/matmul/out_dtype.h"

#include <ATen/ops/empty.h>

#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

void check(const char* op, const at::Tensor& matrix, at::ScalarType out_dtype, const at::Tensor& out) {
  const at::ScalarType in = matrix.scalar_type();
  TORCH_CHECK(out_dtype == in || (out_dtype == at::kFloat && (in == at::kHalf || in == at::kBFloat16)), op,
              ": expected out_dtype to be the matrices' dtype, or Float for Half and BFloat16, but got ", out_dtype,
              " for ", in);
  TORCH_CHECK(out.scalar_type() == out_dtype, op, ": expected out to have dtype ", out_dtype, ", but got ",
              out.scalar_type());
}

// The matrix that is added has the dtype of the matrices or of the result.
at::Tensor added(const char* op, const at::Tensor& self, const at::Tensor& matrix, at::ScalarType out_dtype) {
  TORCH_CHECK(self.scalar_type() == out_dtype || self.scalar_type() == matrix.scalar_type(), op,
              ": expected the added tensor to have dtype ", out_dtype, " or ", matrix.scalar_type(), ", but got ",
              self.scalar_type());
  return self.to(out_dtype);
}

at::Tensor result_of(const at::Tensor& matrix, at::ScalarType out_dtype) {
  return at::empty({0}, matrix.options().dtype(out_dtype));
}

}  // namespace

at::Tensor& mm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype, at::Tensor& out) {
  check("mm", self, out_dtype, out);
  return mm_out(self, mat2, out);
}

at::Tensor mm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  at::Tensor out = result_of(self, out_dtype);
  return mm_dtype_out(self, mat2, out_dtype, out);
}

at::Tensor& bmm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype, at::Tensor& out) {
  check("bmm", self, out_dtype, out);
  return bmm_out(self, mat2, out);
}

at::Tensor bmm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  at::Tensor out = result_of(self, out_dtype);
  return bmm_dtype_out(self, mat2, out_dtype, out);
}

at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                            at::Tensor& out) {
  check("addmm", mat1, out_dtype, out);
  return addmm_out(added("addmm", self, mat1, out_dtype), mat1, mat2, beta, alpha, out);
}

at::Tensor addmm_dtype(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, at::ScalarType out_dtype,
                       const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = result_of(mat1, out_dtype);
  return addmm_dtype_out(self, mat1, mat2, out_dtype, beta, alpha, out);
}

at::Tensor& baddbmm_dtype_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                              at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                              at::Tensor& out) {
  check("baddbmm", batch1, out_dtype, out);
  return baddbmm_out(added("baddbmm", self, batch1, out_dtype), batch1, batch2, beta, alpha, out);
}

at::Tensor baddbmm_dtype(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                         at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = result_of(batch1, out_dtype);
  return baddbmm_dtype_out(self, batch1, batch2, out_dtype, beta, alpha, out);
}

}  // namespace aule::ops
