#include "ops/sparse/products.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <limits>

#include "kernels_sparse.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

uint64_t bits_of(const at::Scalar& s, DType c) {
  return c == DType::f64 ? std::bit_cast<uint64_t>(s.toDouble())
                         : uint64_t{std::bit_cast<uint32_t>(static_cast<float>(s.toDouble()))};
}

bool is_zero(const at::Scalar& s) { return s.toComplexDouble() == 0.0; }

at::Tensor row_begins(const at::Tensor& sorted_rows, int64_t rows) {
  const at::Tensor each = at::arange(rows + 1, sorted_rows.options().dtype(at::kLong));
  return at::searchsorted(sorted_rows.to(at::kLong), each);
}

// A sparse matrix by rows, as int64 indices.
struct Compressed {
  at::Tensor begins, columns, values;
};

Compressed by_rows(const at::Tensor& rows, const at::Tensor& columns, const at::Tensor& values, int64_t count) {
  const auto [sorted, order] = at::sort(rows.contiguous(), /*stable=*/true, 0, /*descending=*/false);
  return {row_begins(sorted, count), columns.index_select(0, order), values.index_select(0, order)};
}

Compressed compressed(const char* op, const at::Tensor& sparse) {
  TORCH_CHECK(sparse.dim() == 2, op, ": expected a sparse matrix, but got ", sparse.dim(), "-D");
  const auto long_of = [](const at::Tensor& t) { return t.to(at::kLong).contiguous(); };
  switch (sparse.layout()) {
    case at::kSparseCsr:
      return {long_of(sparse.crow_indices()), long_of(sparse.col_indices()), sparse.values().contiguous()};
    case at::kSparseCsc: {
      const at::Tensor begins = long_of(sparse.ccol_indices());
      const at::Tensor entries = at::arange(sparse._nnz(), begins.options());
      const at::Tensor columns = at::searchsorted(begins, entries, /*out_int32=*/false, /*right=*/true).sub(1);
      return by_rows(long_of(sparse.row_indices()), columns, sparse.values(), sparse.size(0));
    }
    case at::kSparse: {
      TORCH_CHECK_NOT_IMPLEMENTED(sparse.dense_dim() == 0, op, ": dense dimensions are not supported on device aule");
      const at::Tensor indices = sparse._indices(), values = sparse._values();
      if (sparse.is_coalesced())
        return {row_begins(indices.select(0, 0).contiguous(), sparse.size(0)), indices.select(0, 1).contiguous(),
                values.contiguous()};
      return by_rows(indices.select(0, 0), indices.select(0, 1), values, sparse.size(0));
    }
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": layout ", sparse.layout(), " is not supported on device aule");
  }
}

// Declines what no kernel multiplies.
DType check_operands(const char* op, const at::Tensor& sparse, const at::Tensor& a, const at::Tensor& b) {
  check_floating(op, sparse);
  for (const at::Tensor* t : {&a, &b})
    TORCH_CHECK(t->scalar_type() == sparse.scalar_type(), op, ": expected every operand to be ", sparse.scalar_type(),
                ", but got ", t->scalar_type());
  const DType c = compute_type(dtype_of(sparse.scalar_type(), op));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(a.device().index(), kernel::sparse_mm(c).id), op,
                              ": this device has no float64 arithmetic");
  return c;
}

// Rows that may be longer than one invocation may walk: products of single elements, added up by index.
at::Tensor long_rows(const Compressed& matrix, const at::Tensor& dense, int64_t rows, const at::Scalar& alpha) {
  const at::Tensor entries = at::arange(matrix.columns.size(0), matrix.columns.options());
  const at::Tensor row = at::searchsorted(matrix.begins, entries, /*out_int32=*/false, /*right=*/true).sub(1);
  const auto wide = dense.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor terms = dense.index_select(0, matrix.columns).to(wide).mul(matrix.values.to(wide).unsqueeze(1));
  return at::zeros({rows, dense.size(1)}, terms.options()).index_add_(0, row, terms).mul_(alpha);
}

}  // namespace

at::Tensor addmm_sparse(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  const char* op = "addmm";
  TORCH_CHECK_NOT_IMPLEMENTED(self.layout() == at::kStrided && mat2.layout() == at::kStrided, op,
                              ": expected a sparse matrix times a dense one; other products are not supported on "
                              "device aule");
  check_same_device(op, {&self, &mat1, &mat2});
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2 && mat1.size(1) == mat2.size(0), op,
              ": expected matrices that can be multiplied, but got sizes ", mat1.sizes(), " and ", mat2.sizes());
  const DType c = check_operands(op, mat1, self, mat2);
  const int64_t m = mat1.size(0), n = mat2.size(1);
  at::Tensor out = at::empty({m, n}, mat2.options());
  if (out.numel() == 0) return out;
  at::Tensor added;
  if (!is_zero(beta)) added = self.expand({m, n}).contiguous();
  const Compressed matrix = compressed(op, mat1);
  const auto nnz = static_cast<uint64_t>(matrix.columns.size(0));
  if (nnz == 0 || mat2.numel() == 0) return added.defined() ? out.copy_(added.mul(beta)) : out.zero_();
  if (!may_walk(profile_of(out), nnz)) {
    at::Tensor sums = long_rows(matrix, mat2, m, alpha);
    if (added.defined()) sums.add_(added, beta);
    return out.copy_(sums);
  }
  TensorArgs args;
  SparseMmParams p{};
  p.begins = args.read(matrix.begins);
  p.columns = args.read(matrix.columns);
  p.values = args.read(matrix.values);
  p.dense = args.read(mat2);
  if (added.defined()) p.added = args.read(added);
  p.out_ = args.write(out);
  p.alpha = bits_of(alpha, c);
  p.beta = bits_of(beta, c);
  p.dense_k = mat2.stride(0);
  p.dense_n = mat2.stride(1);
  p.m = static_cast<uint64_t>(m);
  p.n = static_cast<uint64_t>(n);
  p.k = static_cast<uint64_t>(mat2.size(0));
  p.nnz = nnz;
  launch(current(out), kernel::sparse_mm(c), {.dtype = dtype_of(out, op), .has_added = added.defined()}, p, args,
         linear_grid(ceil_div(p.m * p.n, SparseMmParams::kLocal)));
  return out;
}

at::Tensor mm_sparse(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.layout() != at::kStrided && mat2.layout() == at::kStrided,
                              "mm: expected a sparse matrix times a dense one; other products are not supported on "
                              "device aule");
  return addmm_sparse(at::zeros({}, mat2.options()).expand({self.size(0), mat2.size(-1)}), self, mat2, 0, 1);
}

at::Tensor sampled_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha) {
  const char* op = "sampled_addmm";
  TORCH_CHECK(self.layout() == at::kSparseCsr && mat1.layout() == at::kStrided && mat2.layout() == at::kStrided, op,
              ": expected a CSR matrix and two dense ones");
  TORCH_CHECK_NOT_IMPLEMENTED(self.dim() == 2, op, ": batches are not supported on device aule");
  check_same_device(op, {&self, &mat1, &mat2});
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2 && mat1.size(1) == mat2.size(0) && mat1.size(0) == self.size(0) &&
                  mat2.size(1) == self.size(1),
              op, ": expected matrices whose product has sizes ", self.sizes(), ", but got sizes ", mat1.sizes(),
              " and ", mat2.sizes());
  const DType c = check_operands(op, self, mat1, mat2);
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  TORCH_CHECK(self._nnz() < kMax && mat1.size(1) < kMax && self.size(0) < kMax && self.size(1) < kMax, op,
              ": expected sizes below 2^31, but got ", self.sizes(), " with ", self._nnz(), " elements");
  check_walk(op, profile_of(mat1), static_cast<uint64_t>(mat1.size(1)));
  const Compressed matrix = compressed(op, self);
  at::Tensor out = at::empty(matrix.values.sizes(), matrix.values.options());
  if (out.numel() > 0) {
    const at::Tensor entries = at::arange(out.numel(), matrix.begins.options());
    const at::Tensor rows = at::searchsorted(matrix.begins, entries, /*out_int32=*/false, /*right=*/true).sub(1);
    TensorArgs args;
    SparseSampledParams p{};
    p.rows = args.read(rows);
    p.columns = args.read(matrix.columns);
    p.values = args.read(matrix.values);
    if (mat1.numel() > 0) p.a = args.read(mat1);
    if (mat2.numel() > 0) p.b = args.read(mat2);
    p.out_ = args.write(out);
    p.alpha = bits_of(alpha, c);
    p.beta = bits_of(beta, c);
    p.a_m = mat1.stride(0);
    p.a_k = mat1.stride(1);
    p.b_k = mat2.stride(0);
    p.b_n = mat2.stride(1);
    p.m = static_cast<uint32_t>(mat1.size(0));
    p.n = static_cast<uint32_t>(mat2.size(1));
    p.k = static_cast<uint32_t>(mat1.size(1));
    p.nnz = static_cast<uint32_t>(out.numel());
    launch(current(out), kernel::sparse_sampled(c), {.dtype = dtype_of(out, op)}, p, args,
           linear_grid(ceil_div(uint64_t{p.nnz}, SparseSampledParams::kLocal)));
  }
  return at::_sparse_csr_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), out, self.sizes(),
                                       out.scalar_type(), at::kSparseCsr, out.device(), false);
}

at::Tensor& csr_to_coo_out(const at::Tensor& crow_indices, const at::Tensor& col_indices, bool out_int32,
                           bool transpose, at::Tensor& out) {
  const char* op = "_convert_indices_from_csr_to_coo";
  TORCH_CHECK_NOT_IMPLEMENTED(crow_indices.dim() == 1, op, ": batches are not supported on device aule");
  const auto type = out_int32 ? at::kInt : at::kLong;
  const at::Tensor entries = at::arange(col_indices.numel(), crow_indices.options());
  const at::Tensor rows =
      at::searchsorted(crow_indices.contiguous(), entries, /*out_int32=*/false, /*right=*/true).sub(1).to(type);
  const at::Tensor columns = col_indices.to(type);
  at::native::resize_output(out, {2, col_indices.numel()});
  return out.copy_(transpose ? at::cat({columns.unsqueeze(0), rows.unsqueeze(0)})
                             : at::cat({rows.unsqueeze(0), columns.unsqueeze(0)}));
}

at::Tensor& coo_to_csr_out(const at::Tensor& self, int64_t size, bool /*out_int32*/, at::Tensor& out) {
  at::native::resize_output(out, {size + 1});
  return out.copy_(row_begins(self.contiguous(), size));
}

void validate_compressed_indices(bool is_crow, const at::Tensor& compressed_idx, const at::Tensor& plain_idx,
                                 int64_t cdim, int64_t dim, int64_t nnz) {
  const std::string compressed_name = is_crow ? "crow_indices" : "ccol_indices";
  const std::string plain_name = is_crow ? "col_indices" : "row_indices";
  if (compressed_idx.numel() == 0) return;
  const auto all = [](const at::Tensor& t) { return t.numel() == 0 || t.all().item<bool>(); };
  TORCH_CHECK(all(compressed_idx.select(-1, 0).eq(0)), "`", compressed_name, "[..., 0] == 0` is not satisfied.");
  TORCH_CHECK(all(compressed_idx.select(-1, -1).eq(nnz)), "`", compressed_name, "[..., -1] == nnz` is not satisfied.");
  const at::Tensor lengths = compressed_idx.narrow(-1, 1, cdim).sub(compressed_idx.narrow(-1, 0, cdim));
  TORCH_CHECK(all(lengths.ge(0).logical_and(lengths.le(dim))), "`0 <= ", compressed_name, "[..., 1:] - ",
              compressed_name, "[..., :-1] <= ", dim, "` is not satisfied.");
  TORCH_CHECK(all(plain_idx.ge(0).logical_and(plain_idx.lt(dim))), "`0 <= ", plain_name, " < ", dim,
              "` is not satisfied.");
  if (compressed_idx.dim() > 1 || nnz < 2) return;  // order within a row: of batches, not looked at
  const at::Tensor entries = at::arange(nnz, compressed_idx.options());
  const at::Tensor rows = at::searchsorted(compressed_idx.contiguous(), entries, false, /*right=*/true);
  const at::Tensor same = rows.narrow(0, 1, nnz - 1).eq(rows.narrow(0, 0, nnz - 1));
  const at::Tensor rising = plain_idx.narrow(0, 1, nnz - 1).gt(plain_idx.narrow(0, 0, nnz - 1));
  TORCH_CHECK(all(rising.logical_or(same.logical_not())), "`", plain_name,
              "[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., ", cdim,
              " are sorted and distinct along the last dimension values` is not satisfied.");
}

}  // namespace aule::ops
