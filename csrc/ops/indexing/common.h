// Argument checks that the indexing ops share.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/WrapDimUtils.h>

#include <array>

#include "ops/indexing/launch.h"

namespace aule::ops {

inline void check_index_dtype(const char* op, const at::Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op,
              "(): Expected dtype int32/int64 for index, but got ", index.scalar_type());
}

inline void check_same_dtype(const char* op, const at::Tensor& self, const char* name, const at::Tensor& other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), op, "(): Expected self.dtype (", self.scalar_type(),
              ") to be equal to ", name, ".dtype (", other.scalar_type(), ")");
}

inline int64_t size_or_one(const at::Tensor& t, int64_t d) { return t.dim() == 0 ? 1 : t.size(d); }
inline int64_t dim_or_one(const at::Tensor& t) { return t.dim() == 0 ? 1 : t.dim(); }

// For gather and scatter: checks that index fits into `other` in all dimensions except `skip` (-1: in all).
inline void check_index_fits(const char* op, const at::Tensor& index, const at::Tensor& other, int64_t skip,
                             const char* name) {
  if (index.numel() == 0) return;
  TORCH_CHECK(dim_or_one(index) == dim_or_one(other), op,
              "(): Index tensor must have the same number of dimensions as ", name, " tensor");
  for (int64_t d = 0; d < dim_or_one(index); ++d)
    TORCH_CHECK(d == skip || size_or_one(index, d) <= size_or_one(other, d), op, "(): Expected index ", index.sizes(),
                " to be not larger than ", name, " ", other.sizes(), " apart from dimension ", skip);
}

inline void check_not_overlapping(const at::Tensor& out, std::initializer_list<const at::Tensor*> inputs) {
  at::assert_no_internal_overlap(out);
  for (const at::Tensor* input : inputs) at::assert_no_overlap(out, *input);
}

// out = self, unless they are the same tensor.
inline void start_from(const at::Tensor& self, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  if (!out.is_same(self)) out.copy_(self);
}

// A tensor to index in place of one with a dimension of size 0.
inline void check_bound(const char* op, const IndexCall& call) {
  if (call.space.empty()) return;
  for (const int64_t b : call.space.bound)
    TORCH_CHECK_INDEX(b > 0, op, "(): index is out of bounds for dimension with size 0");
}

}  // namespace aule::ops
