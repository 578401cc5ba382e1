#include "ops/sort/sort.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <limits>

#include "kernels_sort.gen.h"
#include "ops/sort/plan.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// The tensor with `dim` last, contiguous, as rows.
at::Tensor rows_of(const at::Tensor& self, int64_t dim) {
  if (self.dim() == 0) return self.reshape({1, 1});
  at::Tensor last = self.movedim(dim, -1).contiguous();
  const int64_t n = last.size(-1);
  return last.view({n == 0 ? 0 : last.numel() / n, n});
}

// Sorts rows [rows, n] and writes positions `first` and on of the order: as many as the results have columns.
void sort_rows_into(const at::Tensor& x, bool descending, int64_t first, const SortPlan& plan, const at::Tensor& values,
                    const at::Tensor& indices) {
  const int64_t rows = x.size(0), n = x.size(1);
  const bool wide = plan.has_positions;
  const auto bytes = x.options().dtype(at::kByte);
  at::Tensor keys[2], positions[2];
  for (int i = 0; i < (plan.merges > 0 ? 2 : 1); ++i) {
    keys[i] = at::empty({rows * n * 8}, bytes);
    if (wide) positions[i] = at::empty({rows * n * 4}, bytes);
  }
  auto& stream = current(x);
  {
    TensorArgs args;
    SortBlockParams p{};
    p.in_ = args.read(x);
    p.keys = args.write(keys[0]);
    if (wide) p.positions = args.write(positions[0]);
    p.rows = rows;
    p.n = n;
    SortBlockSpec spec{
        .dtype = dtype_of(x, "sort"), .is_descending = descending, .block = plan.block, .local = plan.local};
    launch(stream, kernel::sort_block(plan.by_workgroup ? 1 : 0), spec, p, args, plan.block_grid);
  }
  int at_ = 0;
  for (int merge = 0; merge < plan.merges; ++merge, at_ ^= 1) {
    TensorArgs args;
    SortMergeParams p{};
    p.keys = args.read(keys[at_]);
    p.keys_out = args.write(keys[at_ ^ 1]);
    if (wide) {
      p.positions = args.read(positions[at_]);
      p.positions_out = args.write(positions[at_ ^ 1]);
    }
    p.rows = rows;
    p.n = n;
    p.run = plan.block << merge;
    launch(stream, kernel::sort_merge(), {.has_positions = wide, .local = plan.local}, p, args, plan.merge_grid);
  }
  TensorArgs args;
  SortEmitParams p{};
  p.in_ = args.read(x);
  p.keys = args.read(keys[at_]);
  if (wide) p.positions = args.read(positions[at_]);
  p.values = args.write(values);
  p.indices = args.write(indices);
  p.rows = rows;
  p.n = n;
  p.first = first;
  p.count = values.size(1);
  launch(stream, kernel::sort_emit(), {.raw_dtype = raw_dtype_of(x), .has_positions = wide, .local = plan.local}, p,
         args, plan.emit_grid);
}

// Signed integers of the size, if `t` is unsigned and of more than 8 bits; else the same.
at::ScalarType signed_of(at::ScalarType t) {
  return t == at::kUInt16 ? at::kShort : t == at::kUInt32 ? at::kInt : t == at::kUInt64 ? at::kLong : t;
}

// Sorts rows [rows, n] and gives positions first .. first + count - 1 of the order.
TwoTensors sort_rows(const char* name, const at::Tensor& x, bool descending, int64_t first, int64_t count) {
  const at::ScalarType type = x.scalar_type();
  if (signed_of(type) != type) {
    // With the first bit flipped they have the order of signed integers.
    const int64_t flip = std::numeric_limits<int64_t>::min() >> (64 - 8 * x.element_size());
    const auto [values, indices] = sort_rows(name, x.view(signed_of(type)).bitwise_xor(flip), descending, first, count);
    return {values.bitwise_xor(flip).view(type), indices};
  }
  const int64_t rows = x.size(0), n = x.size(1);
  at::Tensor values = at::empty({rows, count}, x.options());
  at::Tensor indices = at::empty({rows, count}, x.options().dtype(at::kLong));
  if (values.numel() == 0) return {values, indices};
  TORCH_CHECK(n <= 0xffffffffll, name, ": expected fewer than 2^32 elements along the dimension, but got ", n);
  const SortProblem problem{static_cast<uint64_t>(rows), static_cast<uint64_t>(n), static_cast<uint64_t>(count),
                            dtype_of(x, name)};
  const SortPlan plan = sort_plan(profile_of(x), problem);
  // Keys take up to 24 bytes an element: of many elements they are in memory for some rows at a time.
  const auto step = static_cast<int64_t>(plan.rows_at_once);
  if (step == rows) {
    sort_rows_into(x, descending, first, plan, values, indices);
    return {values, indices};
  }
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t part = std::min(step, rows - row);
    sort_rows_into(x.narrow(0, row, part), descending, first, plan, values.narrow(0, row, part),
                   indices.narrow(0, row, part));
  }
  return {values, indices};
}

// Rows of results back to the tensor's shape, `dim` having `count` elements (dropped when 0).
void put_back(const at::Tensor& self, int64_t dim, int64_t count, const TwoTensors& rows, at::Tensor& values,
              at::Tensor& indices) {
  auto back = [&](const at::Tensor& r, at::Tensor& out) {
    if (self.dim() == 0) {
      at::native::resize_output(out, {});
      out.copy_(r.view(at::IntArrayRef()));  // not view({}), which is a view as the first dtype
      return;
    }
    std::vector<int64_t> shape = self.sizes().vec();
    shape.erase(shape.begin() + dim);
    if (count > 0) shape.push_back(count);
    at::Tensor t = r.view(shape);
    if (count > 0) t = t.movedim(-1, dim);
    hand_over(t, out);
  };
  back(std::get<0>(rows), values);
  back(std::get<1>(rows), indices);
}

void check_results(const char* name, const at::Tensor& self, const at::Tensor& values, const at::Tensor& indices) {
  check_same_device(name, {&self, &values, &indices});
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), name, ": expected values of dtype ", self.scalar_type(),
              ", but got ", values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == at::kLong, name, ": expected indices of dtype Long, but got ",
              indices.scalar_type());
}

// One element per row.
void select_out(const char* name, const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                at::Tensor& indices, const TwoTensors& rows) {
  check_results(name, self, values, indices);
  put_back(self, dim, keepdim ? 1 : 0, rows, values, indices);
}

// The lower median; with a NaN in the row, that NaN (median) or the median of the rest (nanmedian).
TwoTensors median_rows(const char* name, const at::Tensor& x, bool ignore_nan) {
  const int64_t n = x.size(1);
  if (!x.is_floating_point()) return sort_rows(name, x, false, (n - 1) / 2, 1);
  auto [values, indices] = sort_rows(name, x, false, 0, n);
  at::Tensor nans = values.isnan().sum({1}, /*keepdim=*/true);
  at::Tensor numbers = nans.neg().add(n);
  at::Tensor middle =
      numbers.sub(1).floor_divide(2).clamp_min(0);  // the numbers are the row's first elements, NaNs the last
  at::Tensor position = ignore_nan ? middle : at::where(nans.gt(0), numbers, at::full_like(numbers, (n - 1) / 2));
  return {values.gather(1, position), indices.gather(1, position)};
}

TwoResults median_out(const char* name, const at::Tensor& self, int64_t dim, bool keepdim, bool ignore_nan,
                      at::Tensor& values, at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(dim) > 0, name, "(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  select_out(name, self, dim, keepdim, values, indices, median_rows(name, rows_of(self, dim), ignore_nan));
  return {values, indices};
}

at::Tensor median_all(const char* name, const at::Tensor& self, bool ignore_nan) {
  if (self.numel() == 0)
    return at::full({},
                    self.is_floating_point() ? at::Scalar(std::numeric_limits<double>::quiet_NaN())
                                             : at::Scalar(std::numeric_limits<int64_t>::lowest()),
                    self.options());
  return std::get<0>(median_rows(name, self.reshape({1, -1}).contiguous(), ignore_nan)).view(at::IntArrayRef());
}

}  // namespace

TwoResults sort_out(const at::Tensor& self, std::optional<bool>, int64_t dim, bool descending, at::Tensor& values,
                    at::Tensor& indices) {
  check_results("sort", self, values, indices);
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() == 0 ? 1 : self.size(dim);
  if (self.numel() == 0) {
    at::native::resize_output(values, self.sizes());
    at::native::resize_output(indices, self.sizes());
    return {values, indices};
  }
  put_back(self, dim, n, sort_rows("sort", rows_of(self, dim), descending, 0, n), values, indices);
  return {values, indices};
}

TwoResults topk_out(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool, at::Tensor& values,
                    at::Tensor& indices) {
  check_results("topk", self, values, indices);
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK(k >= 0 && k <= n, "topk: expected k from 0 to ", n, ", but got ", k);
  if (self.numel() == 0 || k == 0) {
    std::vector<int64_t> shape = self.sizes().vec();
    if (self.dim() > 0) shape[dim] = k;
    at::native::resize_output(values, shape);
    at::native::resize_output(indices, shape);
    return {values, indices};
  }
  put_back(self, dim, k, sort_rows("topk", rows_of(self, dim), largest, 0, k), values, indices);
  return {values, indices};
}

TwoResults kthvalue_out(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::Tensor& values,
                        at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK_INDEX(n > 0, "kthvalue(): Expected reduction dim ", dim, " to have non-zero size.");
  TORCH_CHECK(k >= 1 && k <= n, "kthvalue: selected number k out of range for dimension ", dim);
  select_out("kthvalue", self, dim, keepdim, values, indices,
             sort_rows("kthvalue", rows_of(self, dim), false, k - 1, 1));
  return {values, indices};
}

TwoResults median_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices) {
  return median_out("median", self, dim, keepdim, false, values, indices);
}
TwoResults nanmedian_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                             at::Tensor& indices) {
  return median_out("nanmedian", self, dim, keepdim, true, values, indices);
}
at::Tensor median(const at::Tensor& self) { return median_all("median", self, false); }
at::Tensor nanmedian(const at::Tensor& self) { return median_all("nanmedian", self, true); }

TwoResults mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices) {
  const auto [v, i] = ops::mode(self, dim, keepdim);
  hand_over(v, values);
  hand_over(i, indices);
  return {values, indices};
}
TwoTensors mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::Tensor values = at::empty({0}, self.options()), indices = at::empty({0}, self.options().dtype(at::kLong));
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(dim) > 0, "mode(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  at::Tensor x = rows_of(self, dim);
  const int64_t n = x.size(1);
  auto [sorted, order] = sort_rows("mode", x, false, 0, n);
  // Length of the run of equal values that ends at each position. The longest wins, and of those the smallest value.
  at::Tensor place = at::arange(n, indices.options()).expand_as(order);
  at::Tensor starts = at::cat({at::ones({x.size(0), 1}, x.options().dtype(at::kBool)),
                               sorted.narrow(1, 1, n - 1).ne(sorted.narrow(1, 0, n - 1))},
                              1);
  at::Tensor start = std::get<0>(at::cummax(at::where(starts, place, at::zeros_like(place)), 1));
  at::Tensor best = place.sub(start).argmax(1, /*keepdim=*/true);
  select_out("mode", self, dim, keepdim, values, indices, {sorted.gather(1, best), order.gather(1, best)});
  return {values, indices};
}

}  // namespace aule::ops
