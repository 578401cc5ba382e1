#include "ops/sort/unique_rows.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>

namespace aule::ops {
namespace {

using Distinct = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Dense ranks along dimension 1 of keys [rows, n], as int64: 0 for a row's smallest key, equal ones for equal keys.
at::Tensor ranks_of(const at::Tensor& keys) {
  const auto [sorted, order] = at::sort(keys, 1);
  const int64_t n = keys.size(1);
  const auto longs = keys.options().dtype(at::kLong);
  const at::Tensor steps = sorted.narrow(1, 1, n - 1).ne(sorted.narrow(1, 0, n - 1)).to(at::kLong);
  const at::Tensor ranks = at::cat({at::zeros({keys.size(0), 1}, longs), at::cumsum(steps, 1)}, 1);
  return at::empty(keys.sizes(), longs).scatter_(1, order, ranks);
}

// Ranks of the rows of [n, k] in lexicographic order. Neighbouring columns become one column of ranks of their pairs,
// so that log2 k sorts of many rows do.
at::Tensor lexicographic_ranks(const at::Tensor& rows) {
  const int64_t n = rows.size(0);
  at::Tensor ranks = ranks_of(rows.t().contiguous());
  while (ranks.size(0) > 1) {
    const int64_t pairs = ranks.size(0) / 2;
    const at::Tensor even = ranks.slice(0, 0, 2 * pairs, 2), odd = ranks.slice(0, 1, 2 * pairs, 2);
    at::Tensor joined = ranks_of(even.mul(n).add(odd));
    if (ranks.size(0) % 2 != 0) joined = at::cat({joined, ranks.narrow(0, 2 * pairs, 1)}, 0);
    ranks = joined;
  }
  return ranks.select(0, 0);
}

// `groups` numbers each slice's group in the order of the result. A group's first slice stands for it.
Distinct gather_groups(const at::Tensor& self, int64_t dim, const at::Tensor& groups, bool counts) {
  const int64_t n = groups.numel(), distinct = groups.max().item<int64_t>() + 1;  // the result's size is a host value
  const auto longs = groups.options();
  const auto [sorted, order] = at::sort(groups, /*stable=*/true, 0, false);
  const at::Tensor count = at::zeros({distinct}, longs).scatter_add_(0, groups, at::ones({}, longs).expand({n}));
  const at::Tensor starts = at::cumsum(count, 0).sub(count);
  return {self.index_select(dim, order.index_select(0, starts)), groups, counts ? count : at::empty({0}, longs)};
}

// True if the result is made already: no slices.
bool check_slices(const at::Tensor& self, int64_t dim) {
  const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.size(dim) == 0) {
    TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return true;
  }
  TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  return false;
}
Distinct nothing(const at::Tensor& self) {
  const auto longs = self.options().dtype(at::kLong);
  return {at::empty(self.sizes(), self.options()), at::empty({0}, longs), at::empty({0}, longs)};
}

at::Tensor rows_along(const at::Tensor& self, int64_t dim) {
  return self.movedim(dim, 0).reshape({self.size(dim), -1});
}

}  // namespace

Distinct unique_dim(const at::Tensor& self, int64_t dim, bool, bool, bool return_counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (check_slices(self, dim)) return nothing(self);
  return gather_groups(self, dim, lexicographic_ranks(rows_along(self, dim)), return_counts);
}
Distinct unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool, bool return_counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (check_slices(self, dim)) return nothing(self);
  const at::Tensor rows = rows_along(self, dim);
  const int64_t n = rows.size(0);
  const at::Tensor steps = rows.narrow(0, 1, n - 1).ne(rows.narrow(0, 0, n - 1)).any(1).to(at::kLong);
  const at::Tensor groups = at::cat({at::zeros({1}, steps.options()), at::cumsum(steps, 0)}, 0);
  return gather_groups(self, dim, groups, return_counts);
}

}  // namespace aule::ops
