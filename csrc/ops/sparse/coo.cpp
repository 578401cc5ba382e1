#include "ops/sparse/coo.h"

#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/can_cast.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

at::Tensor make_coo(const at::Tensor& like, const at::Tensor& indices, const at::Tensor& values, bool is_coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(like.sparse_dim(), like.dense_dim(), like.sizes(), indices,
                                                      values, values.options().layout(at::kSparse), is_coalesced);
}

int64_t positions(const at::Tensor& self) {
  return c10::multiply_integers(self.sizes().slice(0, static_cast<size_t>(self.sparse_dim())));
}

// Sizes of values for `count` indices.
std::vector<int64_t> value_sizes(const at::Tensor& self, int64_t count) {
  std::vector<int64_t> sizes{count};
  const at::IntArrayRef dense = self.sizes().slice(static_cast<size_t>(self.sparse_dim()));
  sizes.insert(sizes.end(), dense.begin(), dense.end());
  return sizes;
}

at::Tensor flat_indices(const at::Tensor& self) {
  const at::Tensor indices = self._indices();
  if (self.sparse_dim() == 0) return at::zeros({self._nnz()}, indices.options());
  at::Tensor flat = indices.select(0, 0);
  for (int64_t d = 1; d < self.sparse_dim(); ++d) flat = indices.select(0, d).add(flat, self.size(d));
  return flat;
}

// Sums into `count` rows of what has the same index. Sums of 16 bits are made in float32, of bool by counting.
at::Tensor summed(const at::Tensor& self, const at::Tensor& flat, int64_t count) {
  const at::Tensor values = self._values();
  const auto type = values.scalar_type();
  const auto wide = type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type == at::kBool ? at::kInt : type;
  at::Tensor sums = at::zeros(value_sizes(self, count), values.options().dtype(wide));
  if (values.numel() > 0) sums.index_add_(0, flat, values.to(wide));
  return type == at::kBool ? sums.ne(0) : sums.to(type);
}

c10::List<std::optional<at::Tensor>> index_of(const at::Tensor& sparse) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& row : sparse._indices().unbind(0)) list.push_back(row);
  return list;
}

void check_sizes(const char* op, const at::Tensor& self, const at::Tensor& other) {
  check_same_device(op, {&self, &other});
  TORCH_CHECK(self.sizes() == other.sizes(), op, ": expected a sparse tensor of the other's sizes ", self.sizes(),
              ", but got ", other.sizes());
}

at::Tensor scaled(const at::Tensor& values, const at::Scalar& alpha) {
  return alpha.isIntegral(true) && alpha.toLong() == 1 ? values : values.mul(alpha);
}

void add_to_dense(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  if (other._nnz() == 0) return;
  const at::Tensor values = scaled(other._values().to(self.scalar_type()), alpha);
  if (other.sparse_dim() == 0) {
    self.add_(values.sum(0));
  } else {
    self.index_put_(index_of(other), values, /*accumulate=*/true);
  }
}

at::Tensor joined(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::ScalarType type) {
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(), "add: expected sparse tensors of ", self.sparse_dim(),
              " sparse dimensions, but got ", other.sparse_dim());
  return at::cat({self._values().to(type), scaled(other._values().to(type), alpha)});
}

}  // namespace

at::Tensor coalesce_coo(const at::Tensor& self) {
  if (self._nnz() < 2) return make_coo(self, self._indices().clone(), self._values().clone(), true);
  const auto [flat, inverse, counts] = at::_unique2(flat_indices(self), /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor values = summed(self, inverse, flat.size(0));
  std::vector<at::Tensor> rows(static_cast<size_t>(self.sparse_dim()));
  at::Tensor rest = flat;
  for (int64_t d = self.sparse_dim() - 1; d >= 0; --d) {
    rows[static_cast<size_t>(d)] = d == 0 ? rest : rest.remainder(self.size(d));
    if (d > 0) rest = rest.div(self.size(d), "floor");
  }
  const at::Tensor indices = rows.empty() ? at::empty({0, flat.size(0)}, flat.options()) : at::stack(rows);
  return make_coo(self, indices, values, true);
}

at::Tensor coo_to_dense(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                        std::optional<bool> /*masked_grad*/) {
  return summed(self, flat_indices(self), positions(self)).view(self.sizes()).to(dtype.value_or(self.scalar_type()));
}

at::Tensor add_coo(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  TORCH_CHECK_NOT_IMPLEMENTED(other.layout() == at::kSparse && (self.layout() == at::kSparse || !self.is_sparse_csr()),
                              "add: expected a sparse tensor added to a dense or sparse one; use add(dense, sparse)");
  check_sizes("add", self, other);
  const auto type = at::result_type(self, other);
  if (!self.is_sparse()) {
    at::Tensor sum = self.scalar_type() == type ? self.clone() : self.to(type);
    add_to_dense(sum, other, alpha);
    return sum;
  }
  return make_coo(self, at::cat({self._indices(), other._indices()}, 1), joined(self, other, alpha, type), false);
}

at::Tensor& add_coo_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  TORCH_CHECK_NOT_IMPLEMENTED(other.layout() == at::kSparse,
                              "add_: expected a sparse tensor to be added; use add(dense, sparse)");
  check_sizes("add_", self, other);
  TORCH_CHECK(at::can_cast(at::result_type(self, other), self.scalar_type()), "add_: result type ",
              at::result_type(self, other), " can't be cast to the desired output type ", self.scalar_type());
  if (!self.is_sparse()) {
    add_to_dense(self, other, alpha);
    return self;
  }
  const at::Tensor values = joined(self, other, alpha, self.scalar_type());
  at::sparse::alias_into_sparse(self, at::cat({self._indices(), other._indices()}, 1), values);
  return self._coalesced_(false);
}

at::Tensor mul_coo(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor& sparse = self.is_sparse() ? self : other;
  const at::Tensor& factor = self.is_sparse() ? other : self;
  const auto type = at::result_type(self, other);
  if (factor.dim() == 0 && !factor.is_sparse())
    return make_coo(sparse, sparse._indices(), sparse._values().mul(factor).to(type), sparse.is_coalesced());
  TORCH_CHECK_NOT_IMPLEMENTED(factor.layout() == at::kStrided && sparse.sparse_dim() > 0,
                              "mul: products of two sparse tensors are not supported on device aule");
  check_sizes("mul", sparse, factor);
  return make_coo(sparse, sparse._indices(), sparse._values().mul(factor.index(index_of(sparse))).to(type),
                  sparse.is_coalesced());
}

at::Tensor& mul_coo_(at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_sparse() && !other.is_sparse() && other.dim() == 0,
                              "mul_: expected a sparse tensor to be multiplied by a number");
  self._values().mul_(other);
  return self;
}

at::Tensor& mul_coo_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  if (out.is_same(self)) return mul_coo_(out, other);
  TORCH_CHECK(out.is_sparse(), "mul: expected out to be sparse");
  return out.copy_(mul_coo(self, other));
}

at::Tensor mask_coo(const at::Tensor& self, const at::Tensor& mask) {
  const bool served = mask.is_sparse() && (self.layout() == at::kStrided || self.is_sparse());
  TORCH_CHECK_NOT_IMPLEMENTED(served, "sparse_mask: expected a dense or COO tensor and a COO mask");
  check_sizes("sparse_mask", self, mask);
  at::Tensor values;
  if (self.is_sparse()) {
    TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(), "sparse_mask: expected a mask of ", self.sparse_dim(),
                " sparse dimensions, but got ", mask.sparse_dim());
    values = at::zeros(value_sizes(mask, mask._nnz()), self._values().options());
    const at::Tensor kept = self.coalesce();
    if (kept._nnz() > 0 && mask._nnz() > 0) {
      const at::Tensor keys = flat_indices(kept).contiguous(), wanted = flat_indices(mask).contiguous();
      const at::Tensor places = at::searchsorted(keys, wanted).clamp_max_(keys.numel() - 1);
      std::vector<int64_t> column(static_cast<size_t>(values.dim()), 1);
      column[0] = wanted.numel();
      const at::Tensor is_there = keys.index_select(0, places).eq(wanted).view(column);
      values = at::where(is_there, kept._values().index_select(0, places), values);
    }
  } else if (mask.sparse_dim() == 0) {
    values = self.unsqueeze(0).expand(value_sizes(mask, mask._nnz())).clone();
  } else {
    values = self.index(index_of(mask));
  }
  return make_coo(mask, mask._indices().clone(), values, mask.is_coalesced());
}

}  // namespace aule::ops
