// Sparse tensors of layouts COO and CSR. What only handles PyTorch's own structure, indices and values, is its own
// code; what computes is ours. Other operators are refused by name (fallback.cpp).
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_to_dense_native.h>
#include <ATen/ops/_to_sparse_csc_native.h>
#include <ATen/ops/_to_sparse_csr_native.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/cat_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/ceil_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/expm1_native.h>
#include <ATen/ops/floor_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/log1p_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/mv_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/permute_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sign_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>

#include "aten/register.h"
#include "ops/sparse/coo.h"
#include "ops/sparse/products.h"

namespace aule::aten {
namespace {

namespace native = at::native;

// Overloaded in PyTorch: the forms that the schemas call.
using Layout = std::optional<at::Layout>;
using Size = std::optional<int64_t>;
at::Tensor dense_to_sparse(const at::Tensor& self, Layout layout, at::OptionalIntArrayRef blocksize, Size dense_dim) {
  return native::dense_to_sparse(self, layout, blocksize, dense_dim);
}
at::Tensor dense_to_sparse_dim(const at::Tensor& self, int64_t sparse_dim) {
  return native::dense_to_sparse(self, sparse_dim);
}
at::Tensor coo_to_sparse(const at::Tensor& self, Layout layout, at::OptionalIntArrayRef blocksize, Size dense_dim) {
  return native::sparse_coo_to_sparse(self, layout, blocksize, dense_dim);
}
at::Tensor coo_to_sparse_dim(const at::Tensor& self, int64_t sparse_dim) {
  return native::sparse_coo_to_sparse(self, sparse_dim);
}
at::Tensor csr_to_sparse(const at::Tensor& self, Layout layout, at::OptionalIntArrayRef blocksize, Size dense_dim) {
  return native::sparse_compressed_to_sparse(self, layout, blocksize, dense_dim);
}
at::Tensor csr_to_sparse_dim(const at::Tensor& self, int64_t sparse_dim) {
  return native::sparse_compressed_to_sparse(self, sparse_dim);
}
at::Tensor div_coo(const at::Tensor& self, const at::Tensor& other) { return native::div_sparse(self, other); }
at::Tensor& div_coo_(at::Tensor& self, const at::Tensor& other) { return native::div_sparse_(self, other); }
at::Tensor& div_coo_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return native::div_out_sparse_zerodim(self, other, out);
}
at::Tensor csr_to_dense(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<bool> masked_grad) {
  return ops::coo_to_dense(native::sparse_compressed_to_sparse(self, 2), dtype, masked_grad);
}

// Functions of elements that keep zeros.
#define EACH_ZERO_KEEPING(DO) \
  DO(abs)                     \
  DO(ceil)                    \
  DO(expm1)                   \
  DO(floor)                   \
  DO(log1p)                   \
  DO(neg)                     \
  DO(relu)                    \
  DO(sign)                    \
  DO(sin)                     \
  DO(sqrt)                    \
  DO(tanh)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_to_sparse", dense_to_sparse));
  m.impl(ROW("_to_sparse.sparse_dim", dense_to_sparse_dim));
  m.impl(ROW("_to_sparse_csr", native::dense_to_sparse_csr));
  m.impl(ROW("_convert_indices_from_coo_to_csr.out", ops::coo_to_csr_out));
  m.impl(ROW("_convert_indices_from_csr_to_coo.out", ops::csr_to_coo_out));
  m.impl(ROW("_validate_compressed_sparse_indices", ops::validate_compressed_indices));
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("empty.memory_format", GUARDED(native::empty_sparse));
  m.impl("empty_like", GUARDED(native::empty_like_sparse_coo));
  m.impl("_sparse_coo_tensor_with_dims", GUARDED(native::new_with_dims_sparse));
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", GUARDED(native::new_with_dims_and_tensor_sparse_symint));
  m.impl("sparse_dim", GUARDED(native::sparse_dim_sparse));
  m.impl("dense_dim", GUARDED(native::dense_dim_sparse));
  m.impl("_dimI", GUARDED(native::sparse_dim_sparse));
  m.impl("_dimV", GUARDED(native::dense_dim_sparse));
  m.impl("_nnz", GUARDED(native::_nnz_sparse));
  m.impl("_indices", GUARDED(native::_indices_sparse));
  m.impl("_values", GUARDED(native::_values_sparse));
  m.impl("indices", GUARDED(native::indices_sparse));
  m.impl("values", GUARDED(native::values_sparse));
  m.impl("is_coalesced", GUARDED(native::is_coalesced_sparse));
  m.impl("_coalesced_", GUARDED(native::_coalesced_sparse_));
  m.impl("_coalesce", GUARDED(ops::coalesce_coo));
  m.impl("sparse_resize_", GUARDED(native::sparse_resize_));
  m.impl("sparse_resize_and_clear_", GUARDED(native::sparse_resize_and_clear_));
  m.impl("resize_as_sparse_", GUARDED(native::resize_as_sparse_));
  m.impl("copy_", GUARDED(native::copy_sparse_wrapper_));
  m.impl("copy_sparse_to_sparse_", GUARDED(native::copy_sparse_));
  m.impl("clone", GUARDED(native::clone_sparse));
  m.impl("zero_", GUARDED(native::zero_sparse_));
  m.impl("_to_dense", GUARDED(ops::coo_to_dense));
  m.impl("_to_sparse", GUARDED(coo_to_sparse));
  m.impl("_to_sparse.sparse_dim", GUARDED(coo_to_sparse_dim));
  m.impl("_to_sparse_csr", GUARDED(native::coo_to_sparse_csr));
  m.impl("permute", GUARDED(native::permute_sparse_coo));
  m.impl("unsqueeze", GUARDED(native::unsqueeze_sparse));
  m.impl("cat", GUARDED(native::cat_sparse));
  m.impl("sum", GUARDED(native::sum_coo));
  m.impl("sum.dim_IntList", GUARDED(native::sum_sparse_coo));
  m.impl("add.Tensor", GUARDED(ops::add_coo));
  m.impl("add_.Tensor", GUARDED(ops::add_coo_));
  m.impl("mul.Tensor", GUARDED(ops::mul_coo));
  m.impl("mul_.Tensor", GUARDED(ops::mul_coo_));
  m.impl("mul.out", GUARDED(ops::mul_coo_out));
  m.impl("div.Tensor", GUARDED(div_coo));
  m.impl("div_.Tensor", GUARDED(div_coo_));
  m.impl("div.out", GUARDED(div_coo_out));
  m.impl("pow.Tensor_Scalar", GUARDED(native::pow_sparse_scalar));
#define COO_ROWS(name)                           \
  m.impl(#name, GUARDED(native::name##_sparse)); \
  m.impl(#name "_", GUARDED(native::name##_sparse_));
  EACH_ZERO_KEEPING(COO_ROWS)
#undef COO_ROWS
  m.impl("sparse_mask", GUARDED(ops::mask_coo));
  m.impl("mm", GUARDED(ops::mm_sparse));
  m.impl("addmm", GUARDED(ops::addmm_sparse));
  m.impl("mv", GUARDED(native::mv_sparse));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("empty.memory_format", GUARDED(native::empty_sparse_compressed));
  m.impl("empty_like", GUARDED(native::empty_like_sparse_csr));
  m.impl("sparse_dim", GUARDED(native::sparse_dim_sparse_csr));
  m.impl("dense_dim", GUARDED(native::dense_dim_sparse_csr));
  m.impl("_nnz", GUARDED(native::_nnz_sparse_csr));
  m.impl("crow_indices", GUARDED(native::crow_indices_sparse_csr));
  m.impl("col_indices", GUARDED(native::col_indices_sparse_csr));
  m.impl("ccol_indices", GUARDED(native::ccol_indices_sparse_csr));
  m.impl("row_indices", GUARDED(native::row_indices_sparse_csr));
  m.impl("values", GUARDED(native::values_sparse_csr));
  m.impl("resize_as_sparse_", GUARDED(native::resize_as_sparse_compressed_));
  m.impl("copy_", GUARDED(native::copy_sparse_compressed_));
  m.impl("clone", GUARDED(native::clone_sparse_compressed));
  m.impl("zero_", GUARDED(native::zero_sparse_csr_));
  m.impl("_to_dense", GUARDED(csr_to_dense));
  m.impl("_to_sparse", GUARDED(csr_to_sparse));
  m.impl("_to_sparse.sparse_dim", GUARDED(csr_to_sparse_dim));
  m.impl("_to_sparse_csr", GUARDED(native::sparse_compressed_to_sparse_csr));
  m.impl("sum", GUARDED(native::sum_csr));
  m.impl("mul.Scalar", GUARDED(native::mul_scalar_sparse_csr));
  m.impl("mul_.Scalar", GUARDED(native::mul__scalar_sparse_csr));
#define CSR_ROWS(name)                               \
  m.impl(#name, GUARDED(native::name##_sparse_csr)); \
  m.impl(#name "_", GUARDED(native::name##_sparse_csr_));
  EACH_ZERO_KEEPING(CSR_ROWS)
#undef CSR_ROWS
  m.impl("mm", GUARDED(ops::mm_sparse));
  m.impl("addmm", GUARDED(ops::addmm_sparse));
  m.impl("sparse_sampled_addmm", GUARDED(ops::sampled_addmm));
}

}  // namespace aule::aten
